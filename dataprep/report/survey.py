"""One look at all rows of a set: sizes, formats, and where the pictures are that the page will show."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
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
from dataprep.mindrecord.index import COLUMNS, IndexRow, read_index
from dataprep.mindrecord.reader import ShardReader
from schemas.dataset import Dataset
from schemas.errors import ContractError

SAMPLE_ROWS = 2000
MAX_KNOWN_SIZES = 50_000  # different sizes that are counted; of more, the rest is left out
MAX_KNOWN_ENDINGS = 1000
# Steps of the histograms: so many a doubling.
ASPECT_STEPS = 12
BYTES_STEPS = 3

Tell = Callable[[str, int, int], None]  # what is done, how much of it, of how much


class Place(NamedTuple):
    """Where a row lies."""

    split: str
    shard: str
    index_row: IndexRow


@dataclass
class Sizes:
    """Of so many `rows`: how many have which size, which short side and which ratio of the sides, and the endings of
    their names. Ratios are counted by rounded steps, see ASPECT_STEPS.
    """

    rows: int = 0
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    short_sides: Counter[int] = field(default_factory=Counter)
    aspects: Counter[int] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)

    def add(self, key: str, width: int, height: int) -> None:
        """Count one row; one without a size is left out."""
        if width < 1 or height < 1:
            return
        self.rows += 1
        self.short_sides[min(width, height)] += 1
        self.aspects[round(math.log2(width / height) * ASPECT_STEPS)] += 1
        if (width, height) in self.sizes or len(self.sizes) < MAX_KNOWN_SIZES:
            self.sizes[width, height] += 1
        ending = _ending(key)
        if ending in self.endings or len(self.endings) < MAX_KNOWN_ENDINGS:
            self.endings[ending] += 1


@dataclass
class Survey:
    """What the rows are like: `measured` are all of them or those of the sample. Of `sampled` rows, evenly spread over
    the set, `formats` are known. `image_bytes` are counted by rounded steps, see BYTES_STEPS. `sheets` has labels and
    places, `keyed` places by key, both in the order of the set; `problems` says what could not be read.
    """

    measured: Sizes = field(default_factory=Sizes)
    sampled: int = 0
    image_bytes: Counter[int] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    sheets: list[tuple[int, Place]] = field(default_factory=list)
    keyed: dict[str, Place] = field(default_factory=dict)
    sample: list[Place] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def _ending(key: str) -> str:
    """jpg of a/b.JPG; empty where the name has none that could be one."""
    ending = key.rpartition("/")[2].rpartition(".")[2].lower()
    return ending if ending.isalnum() and len(ending) <= 5 and "." in key.rpartition("/")[2] else ""


def look(folder: Path, dataset: Dataset, sheet: Sheet, labels: Set[int], keys: Set[str], tell: Tell) -> Survey:
    """Read every index of a sealed set, the notes of its rows where .work came along, and a sample of the rows.

    For each class of `labels` the places of as many first rows are kept as a `sheet` has pictures: rows lie in a seeded
    order, so that is a fair choice. Memory grows with sheets and `keys`, not with rows.
    """
    survey = Survey()
    done = 0
    columns = _Columns(dataset)
    step = max(1, dataset.written // SAMPLE_ROWS)
    for split, shard in ((name, shard) for name, part in dataset.splits.items() for shard in part.shards):
        try:
            for number, row in enumerate(read_index(folder / shard.name, dataset.schema), done):
                place = Place(split, shard.name, row)
                columns.take(survey, place, sheet, labels, keys)
                if number % step == 0 and len(survey.sample) < SAMPLE_ROWS:
                    survey.sample.append(place)
                if number % 10_000 == 0:
                    tell("rows", number, dataset.written)
        except (ContractError, TypeError, ValueError) as error:
            survey.problems.append(f"{shard.name}: {error}" if not str(error).startswith(shard.name) else str(error))
        done += shard.rows
    noted = _noted_sizes(folder, dataset, tell)
    in_sample = _read_sample(folder, dataset, survey, tell)
    survey.measured = noted or in_sample
    return survey


class _Columns:
    """Which values of an index row are label and key, where the schema has them indexed."""

    def __init__(self, dataset: Dataset) -> None:
        indexed = [field.name for field in dataset.schema.index_fields]
        self._at = {
            role: len(COLUMNS) + indexed.index(dataset.schema.column(role))
            for role in ("label", "key")
            if dataset.schema.column(role) in indexed
        }
        self._chosen: Counter[int] = Counter()
        self._single = len(dataset.schema.blob_fields) == 1

    def take(self, survey: Survey, place: Place, sheet: Sheet, labels: Set[int], keys: Set[str]) -> None:
        row = place.index_row
        if self._single:
            size = row[7] - row[6] - 8  # PAGE_OFFSET_BLOB and its end, without the prefix
            survey.image_bytes[round(math.log2(max(1, size)) * BYTES_STEPS)] += 1
        if "label" in self._at:
            label = row[self._at["label"]]
            if label in labels and self._chosen[label] < sheet.pictures:
                self._chosen[label] += 1
                survey.sheets.append((label, place))
        if "key" in self._at and row[self._at["key"]] in keys:
            survey.keyed[row[self._at["key"]]] = place


def _noted_sizes(folder: Path, dataset: Dataset, tell: Tell) -> Sizes | None:
    """What was noted of each row while it was written; None where those notes did not come along whole."""
    sizes = Sizes()
    try:
        for shard in dataset.shards:
            for row in noted_rows(rows_file(folder, shard.name)):
                sizes.add(row.key, row.width, row.height)
                if sizes.rows % 10_000 == 0:
                    tell("sizes", sizes.rows, dataset.written)
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return sizes if sizes.rows == dataset.written else None


def _read_sample(folder: Path, dataset: Dataset, survey: Survey, tell: Tell) -> Sizes:
    """Look into the rows of the sample; their sizes, as their headers say."""
    sizes = Sizes()
    image, key = dataset.schema.column("image"), dataset.schema.column("key")
    for done, (_, row) in enumerate(read_places(folder, survey.sample)):
        if row is None:
            continue
        survey.sampled += 1
        survey.formats["JPEG" if row[image].startswith(JPEG_MAGIC) else "PNG"] += 1
        sizes.add(str(row[key]), *image_size(row[image]))
        if done % 100 == 0:
            tell("sample", done, len(survey.sample))
    return sizes


def read_places(folder: Path, places: Iterable[Place]) -> Iterator[tuple[Place, dict[str, Any] | None]]:
    """The row at each place, None where it cannot be read. In the order of the set each shard is opened once."""
    for name, group in groupby(places, key=lambda place: place.shard):
        with _opened(folder / name) as reader:
            for place in group:
                yield place, _row(reader, place) if reader else None


@contextmanager
def _opened(path: Path) -> Iterator[ShardReader | None]:
    try:
        reader = ShardReader(path)
    except ContractError:
        yield None
        return
    with reader:
        yield reader


def _row(reader: ShardReader, place: Place) -> dict[str, Any] | None:
    try:
        return reader.at(place.index_row)
    except ContractError:
        return None
