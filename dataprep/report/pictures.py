"""Make the pictures of the page: contact sheets of the classes, rejected files, and pairs of duplicates."""

import os
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dataprep.images.thumbnails import File, Sheet, Thumbnail, Thumbnailer
from dataprep.items import StepProgress, encode_name, key_to_path
from dataprep.report.rejected import DuplicateGroup, Rejected
from dataprep.report.survey import Survey, read_locations
from schemas.dataset import Dataset
from schemas.page import shorten

REJECTED_S = 30.0  # time limit for all rejected files


@dataclass
class Pictures:
    """Thumbnails and captions: of classes by label, of rejected files by reason, of duplicates by key.

    `timed_out` is True if the time limit for rejected files was reached.
    """

    sheets: defaultdict[int, list[tuple[Thumbnail, str]]] = field(default_factory=lambda: defaultdict(list))
    rejected: defaultdict[str, list[tuple[Thumbnail, str]]] = field(default_factory=lambda: defaultdict(list))
    duplicates: dict[str, Thumbnail] = field(default_factory=dict)
    timed_out: bool = False

    @property
    def count(self) -> int:
        """The number of pictures."""
        return sum(map(len, (*self.sheets.values(), *self.rejected.values()))) + len(self.duplicates)


@dataclass(frozen=True)
class Limits:
    """The number and size of pictures of each kind, and the `labels` of the classes that get a contact sheet."""

    labels: frozenset[int]
    sheets: Sheet
    rejected: Sheet
    duplicates: Sheet


def make_pictures(
    folder: Path,
    dataset: Dataset,
    survey: Survey,
    rejected: Rejected,
    source: str | None,
    limits: Limits,
    progress: StepProgress,
) -> Pictures:
    """Make all pictures of the page.

    Pictures of rejected files are read from `source`, if it still exists.
    """
    pictures = Pictures()
    with Thumbnailer() as maker:
        _class_sheets(pictures, maker, folder, dataset, survey, limits.sheets, progress)
        image = dataset.schema.column("image")
        rows = zip(survey.keyed, read_locations(folder, survey.keyed.values()), strict=True)
        wanted = ((key, row[image]) for key, (_, row) in rows if row)
        thumbnails = maker.make(wanted, limits.duplicates)
        pictures.duplicates = {key: thumbnail for key, thumbnail in thumbnails if thumbnail}
        if source:
            _rejected_files(pictures, maker, rejected, source, limits.rejected, progress)
    return pictures


def _class_sheets(
    pictures: Pictures,
    maker: Thumbnailer,
    folder: Path,
    dataset: Dataset,
    survey: Survey,
    sheet: Sheet,
    progress: StepProgress,
) -> None:
    image, key = dataset.schema.column("image"), dataset.schema.column("key")
    labels = (label for label, _ in survey.sheets)
    rows = zip(labels, read_locations(folder, (location for _, location in survey.sheets)), strict=True)
    wanted = (
        ((label, f"{shorten(str(row[key]))}, {location.split}"), row[image]) for label, (location, row) in rows if row
    )
    for done, ((label, caption), thumbnail) in enumerate(maker.make(wanted, sheet)):
        if thumbnail:
            pictures.sheets[label].append((thumbnail, caption))
        if done % 20 == 0:
            progress("pictures", done, len(survey.sheets))


def _rejected_files(
    pictures: Pictures, maker: Thumbnailer, rejected: Rejected, source: str, sheet: Sheet, progress: StepProgress
) -> None:
    """Add pictures of the rejected files that decode at least partly, up to the limits of number and time."""
    until = time.monotonic() + REJECTED_S
    left = {reason: [reject for reject in rejects if reject["size"]] for reason, rejects in rejected.candidates.items()}
    done, total = 0, sum(map(len, left.values()))
    while batch := _next_batch(left, pictures, sheet):
        if time.monotonic() > until:
            pictures.timed_out = True
            return
        files = ((reject, File(_path(source, reject["key"]), reject["size"])) for reject in batch)
        for reject, thumbnail in maker.make(files, sheet):
            done += 1
            if thumbnail:
                caption = f"{shorten(reject['key'])}: {shorten(reject['detail'])}"
                pictures.rejected[reject["reason"]].append((thumbnail, caption))
        progress("rejected files", done, total)


def _path(source: str, key: str) -> bytes:
    """Return the path of a rejected file; empty for a key that leads outside the source.

    rejects.jsonl is not trusted.
    """
    try:
        path = key_to_path(key)
    except ValueError:
        return b""
    return b"" if ".." in path.split("/") else os.path.join(encode_name(source), encode_name(path.lstrip("/")))


def _next_batch(left: dict[str, list[Any]], pictures: Pictures, sheet: Sheet) -> list[Any]:
    """Remove a few files of each reason that needs more pictures from `left`, and return them."""
    batch: list[Any] = []
    for reason, rejects in left.items():
        wanted = min(4, sheet.pictures - len(pictures.rejected[reason]))
        batch += rejects[:wanted]
        del rejects[:wanted]
    return batch


def keys_of(groups: list[DuplicateGroup]) -> set[str]:
    """Return the keys of the rows that are shown side by side."""
    return {key for group in groups for key, _, _ in group.rows}
