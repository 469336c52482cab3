"""The pictures of the page: contact sheets of the classes, refused files, pairs of equal pictures."""

import os
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dataprep.images.thumbnails import File, Sheet, Thumbnail, Thumbnailer
from dataprep.items import encode_name, key_to_path
from dataprep.report.refused import Equal, Refused
from dataprep.report.survey import Survey, Tell, read_places
from schemas.dataset import Dataset
from schemas.page import shorten

REFUSED_S = 30.0  # for all refused files together


@dataclass
class Pictures:
    """Thumbnails and their captions: by label; of refused files by reason; of equal pictures by key. `hurried` tells
    that the time for refused files was used up.
    """

    sheets: defaultdict[int, list[tuple[Thumbnail, str]]] = field(default_factory=lambda: defaultdict(list))
    refused: defaultdict[str, list[tuple[Thumbnail, str]]] = field(default_factory=lambda: defaultdict(list))
    equal: dict[str, Thumbnail] = field(default_factory=dict)
    hurried: bool = False

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, (*self.sheets.values(), *self.refused.values()))) + len(self.equal)


@dataclass(frozen=True)
class Room:
    """What each kind of picture may take, and the `labels` of the classes that have a contact sheet."""

    labels: frozenset[int]
    sheets: Sheet
    refused: Sheet
    equal: Sheet


def make_pictures(
    folder: Path, dataset: Dataset, survey: Survey, refused: Refused, source: str | None, room: Room, tell: Tell
) -> Pictures:
    """All pictures of the page. Those of refused files come from `source`, where it is still there."""
    pictures = Pictures()
    with Thumbnailer() as maker:
        _class_sheets(pictures, maker, folder, dataset, survey, room.sheets, tell)
        image = dataset.schema.column("image")
        rows = zip(survey.keyed, read_places(folder, survey.keyed.values()), strict=True)
        wanted = ((key, row[image]) for key, (_, row) in rows if row)
        pictures.equal = {key: made for key, made in maker.make(wanted, room.equal) if made}
        if source:
            _refused_files(pictures, maker, refused, source, room.refused, tell)
    return pictures


def _class_sheets(
    pictures: Pictures, maker: Thumbnailer, folder: Path, dataset: Dataset, survey: Survey, sheet: Sheet, tell: Tell
) -> None:
    image, key = dataset.schema.column("image"), dataset.schema.column("key")
    labels = (label for label, _ in survey.sheets)
    rows = zip(labels, read_places(folder, (place for _, place in survey.sheets)), strict=True)
    wanted = (((label, f"{shorten(str(row[key]))}, {place.split}"), row[image]) for label, (place, row) in rows if row)
    for done, ((label, caption), made) in enumerate(maker.make(wanted, sheet)):
        if made:
            pictures.sheets[label].append((made, caption))
        if done % 20 == 0:
            tell("pictures", done, len(survey.sheets))


def _refused_files(
    pictures: Pictures, maker: Thumbnailer, refused: Refused, source: str, sheet: Sheet, tell: Tell
) -> None:
    """For each reason the files that decode, at least in part, as many as there is room for and time."""
    until = time.monotonic() + REFUSED_S
    left = {reason: [reject for reject in tried if reject["size"]] for reason, tried in refused.tried.items()}
    done, total = 0, sum(map(len, left.values()))
    while batch := _next_batch(left, pictures, sheet):
        if time.monotonic() > until:
            pictures.hurried = True
            return
        files = ((reject, File(_path(source, reject["key"]), reject["size"])) for reject in batch)
        for reject, made in maker.make(files, sheet):
            done += 1
            if made:
                caption = f"{shorten(reject['key'])}: {shorten(reject['detail'])}"
                pictures.refused[reject["reason"]].append((made, caption))
        tell("refused files", done, total)


def _path(source: str, key: str) -> bytes:
    """Where a refused file is; nowhere for a key that leaves the source, for the list may be a stranger's."""
    try:
        path = key_to_path(key)
    except ValueError:
        return b""
    return b"" if ".." in path.split("/") else os.path.join(encode_name(source), encode_name(path.lstrip("/")))


def _next_batch(left: dict[str, list[Any]], pictures: Pictures, sheet: Sheet) -> list[Any]:
    """A few files of each reason that still lacks pictures, taken from `left`."""
    batch: list[Any] = []
    for reason, rejects in left.items():
        lacking = min(4, sheet.pictures - len(pictures.refused[reason]))
        batch += rejects[:lacking]
        del rejects[:lacking]
    return batch


def equal_keys(groups: list[Equal]) -> set[str]:
    """The keys whose pictures are put side by side."""
    return {key for group in groups for key, _, _ in group.rows}
