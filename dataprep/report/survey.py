"""Read all indexes of a dataset: sizes, formats, and the locations of the images that the page shows."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from dataprep.build.receipt import noted_rows
from dataprep.build.workdir import rows_file
from dataprep.images.check import image_size
from dataprep.images.formats.jpeg import JPEG_MAGIC
from dataprep.images.thumbnails import Sheet
from dataprep.items import StepProgress
from dataprep.mindrecord.index import COLUMNS, IndexRow, read_index
from dataprep.mindrecord.reader import ShardReader
from schemas.dataset import Dataset
from schemas.errors import ContractError

SAMPLE_ROWS = 2000
MAX_KNOWN_SIZES = 50_000  # number of different sizes that are counted
MAX_KNOWN_EXTENSIONS = 1000
# Histogram bins per power of two.
ASPECT_STEPS = 12
BYTES_STEPS = 3


class Location(NamedTuple):
    """The location of a row."""

    split: str
    shard: str
    index_row: IndexRow


@dataclass
class Sizes:
    """Counts of `rows` by size, short side, aspect ratio (in bins, see ASPECT_STEPS) and file name extension."""

    rows: int = 0
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    short_sides: Counter[int] = field(default_factory=Counter)
    aspects: Counter[int] = field(default_factory=Counter)
    extensions: Counter[str] = field(default_factory=Counter)

    def add(self, key: str, width: int, height: int) -> None:
        """Count a row, unless its size is unknown."""
        if width < 1 or height < 1:
            return
        self.rows += 1
        self.short_sides[min(width, height)] += 1
        self.aspects[round(math.log2(width / height) * ASPECT_STEPS)] += 1
        if (width, height) in self.sizes or len(self.sizes) < MAX_KNOWN_SIZES:
            self.sizes[width, height] += 1
        extension = _extension(key)
        if extension in self.extensions or len(self.extensions) < MAX_KNOWN_EXTENSIONS:
            self.extensions[extension] += 1


@dataclass
class Survey:
    """Statistics of the rows, and the locations of images.

    `measured` has the sizes of all rows or of the sample. `formats` counts the `sampled` rows, which are evenly spread
    over the dataset. `image_bytes` are counted in bins, see BYTES_STEPS. `sheets` has labels and locations, `keyed` has
    locations by key, both in the order of the dataset. `problems` names shards that could not be read.
    """

    measured: Sizes = field(default_factory=Sizes)
    sampled: int = 0
    image_bytes: Counter[int] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    sheets: list[tuple[int, Location]] = field(default_factory=list)
    keyed: dict[str, Location] = field(default_factory=dict)
    sample: list[Location] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def _extension(key: str) -> str:
    """Return jpg for a/b.JPG, and an empty string for a name without an extension."""
    extension = key.rpartition("/")[2].rpartition(".")[2].lower()
    return extension if extension.isalnum() and len(extension) <= 5 and "." in key.rpartition("/")[2] else ""


def read_rows(
    folder: Path, dataset: Dataset, sheet: Sheet, labels: Set[int], keys: Set[str], progress: StepProgress
) -> Survey:
    """Read every index of a sealed dataset, the row notes in .work if they exist, and a sample of the rows.

    The first rows of each class in `labels` are put on its contact sheet. Rows are in a seeded random order, so they
    are a fair sample. Memory grows with the sheets and `keys`, not with the number of rows.
    """
    survey = Survey()
    done = 0
    columns = _Columns(dataset)
    step = max(1, dataset.written // SAMPLE_ROWS)
    for name, shard in ((name, shard) for name, split in dataset.splits.items() for shard in split.shards):
        try:
            for number, row in enumerate(read_index(folder / shard.name, dataset.schema), done):
                location = Location(name, shard.name, row)
                columns.take(survey, location, sheet, labels, keys)
                if number % step == 0 and len(survey.sample) < SAMPLE_ROWS:
                    survey.sample.append(location)
                if number % 10_000 == 0:
                    progress("rows", number, dataset.written)
        except (ContractError, TypeError, ValueError) as error:
            survey.problems.append(f"{shard.name}: {error}" if not str(error).startswith(shard.name) else str(error))
        done += shard.rows
    noted = _noted_sizes(folder, dataset, progress)
    sampled = _read_sample(folder, dataset, survey, progress)
    survey.measured = noted or sampled
    return survey


class _Columns:
    """Positions of label and key in an index row, if the schema has them indexed."""

    def __init__(self, dataset: Dataset) -> None:
        indexed = [field.name for field in dataset.schema.index_fields]
        self._at = {
            role: len(COLUMNS) + indexed.index(dataset.schema.column(role))
            for role in ("label", "key")
            if dataset.schema.column(role) in indexed
        }
        self._chosen: Counter[int] = Counter()
        self._single = len(dataset.schema.blob_fields) == 1

    def take(self, survey: Survey, location: Location, sheet: Sheet, labels: Set[int], keys: Set[str]) -> None:
        row = location.index_row
        if self._single:
            size = row[7] - row[6] - 8  # end minus start of the blob, without its 8-byte length
            survey.image_bytes[round(math.log2(max(1, size)) * BYTES_STEPS)] += 1
        if "label" in self._at:
            label = row[self._at["label"]]
            if label in labels and self._chosen[label] < sheet.pictures:
                self._chosen[label] += 1
                survey.sheets.append((label, location))
        if "key" in self._at and row[self._at["key"]] in keys:
            survey.keyed[row[self._at["key"]]] = location


def _noted_sizes(folder: Path, dataset: Dataset, progress: StepProgress) -> Sizes | None:
    """Return the sizes that were noted in .work while the rows were written; None if a note is missing."""
    sizes = Sizes()
    try:
        for shard in dataset.shards:
            for row in noted_rows(rows_file(folder, shard.name)):
                sizes.add(row.key, row.width, row.height)
                if sizes.rows % 10_000 == 0:
                    progress("sizes", sizes.rows, dataset.written)
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return sizes if sizes.rows == dataset.written else None


def _read_sample(folder: Path, dataset: Dataset, survey: Survey, progress: StepProgress) -> Sizes:
    """Return the sizes of the sampled images, from their headers."""
    sizes = Sizes()
    image, key = dataset.schema.column("image"), dataset.schema.column("key")
    for done, (_, row) in enumerate(read_locations(folder, survey.sample)):
        if row is None:
            continue
        survey.sampled += 1
        survey.formats["JPEG" if row[image].startswith(JPEG_MAGIC) else "PNG"] += 1
        sizes.add(str(row[key]), *image_size(row[image]))
        if done % 100 == 0:
            progress("sample", done, len(survey.sample))
    return sizes


def read_locations(folder: Path, locations: Iterable[Location]) -> Iterator[tuple[Location, dict[str, Any] | None]]:
    """Yield the row at each location; None if it is unreadable.

    Each shard is opened once if the locations are in dataset order.
    """
    for name, group in groupby(locations, key=lambda location: location.shard):
        with _opened(folder / name) as reader:
            for location in group:
                yield location, _row(reader, location) if reader else None


@contextmanager
def _opened(path: Path) -> Iterator[ShardReader | None]:
    try:
        reader = ShardReader(path)
    except ContractError:
        yield None
        return
    with reader:
        yield reader


def _row(reader: ShardReader, location: Location) -> dict[str, Any] | None:
    try:
        return reader.at(location.index_row)
    except ContractError:
        return None
