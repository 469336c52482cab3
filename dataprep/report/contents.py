"""What the page holds: gathered, brought into tables and figures, and written whole."""

import base64
import os
from dataclasses import dataclass
from pathlib import Path

from dataprep.build.workdir import write_output
from dataprep.disk import disk_errors
from dataprep.errors import DataprepError
from dataprep.images.thumbnails import choose_sheet
from dataprep.items import encode_name
from dataprep.report import figures, tables
from dataprep.report.origin import Origin, find_origin
from dataprep.report.page import need, render
from dataprep.report.pictures import Pictures, Room, equal_keys, make_pictures
from dataprep.report.refused import Equal, Refused, list_equal, list_refused
from dataprep.report.survey import Survey, Tell, look
from schemas.counting import many
from schemas.dataset import Dataset, load_dataset
from schemas.layout import REPORT
from schemas.page import shorten

# What a page of 10 MB is spent on. Base64 makes four bytes of three.
PAGE_BYTES = 9_300_000
LOOK_BYTES = 250_000
REFUSED_BYTES = 450_000
EQUAL_BYTES = 350_000
SHEETS_BYTES = 3_900_000
CLASS_BYTES, SHARD_BYTES = 700, 450  # of a row in their tables
MAX_SHEETS = 1000
DRAWN_CLASSES = 12  # from so many on, a figure shows their sizes
CONTENTS = (
    ("totals", "Totals"),
    ("classes", "Classes"),
    ("sizes", "Sizes"),
    ("formats", "Formats"),
    ("pictures", "Pictures"),
    ("refused", "Refused"),
    ("equal", "Equal"),
    ("shards", "Shards"),
    ("made", "Made"),
)


@dataclass(frozen=True)
class Reported:
    """The page that was written: its bytes and thumbnails, and the refused files that it lists. `missing` says, a
    sentence each, what it cannot show and why.
    """

    path: str
    digest: str
    bytes: int
    rows: int
    classes: int
    pictures: int
    refused: int
    listed: int
    missing: list[str]


def report(folder: Path, out: Path | None, tell: Tell) -> Reported:
    """Write the page of the sealed set in `folder` to `out`, by default OUT/report.html, whole or not at all.

    Raises DataprepError when an extra is missing or `out` may not be written, ContractError when there is no sound
    manifest. What cannot be read of the set is left out, and the page says so. Memory does not grow with rows.
    """
    need("jinja2", "matplotlib")
    dataset = load_dataset(folder)
    out = out or folder / REPORT
    _check_out(out)
    refused = list_refused(folder, dataset, 12)
    groups = list_equal(folder, refused.problems)
    room = _room(dataset, refused, groups)
    survey = look(folder, dataset, room.sheets, room.labels, equal_keys(groups), tell)
    origin = find_origin(folder, dataset, refused.by_label)
    pictures = make_pictures(folder, dataset, survey, refused, origin.source, room, tell)
    missing = _missing(dataset, survey, refused, origin, room, pictures)
    page = render(
        CONTENTS,
        name=shorten(folder.absolute().name or "dataset"),
        dataset=dataset,
        origin=origin,
        missing=missing,
        survey=survey,
        totals=tables.totals(dataset, origin),
        shards=tables.shards(dataset),
        policy=tables.policy(dataset),
        endings=tables.endings(survey.measured),
        classes=tables.classes(dataset, refused),
        sizes=tables.sizes(survey.measured) if survey.measured.rows else None,
        figures=_figures(dataset, survey),
        sheets=tables.sheets(dataset, pictures, room),
        refused=refused,
        refused_pictures=pictures.refused,
        packed=base64.b64encode(refused.packed).decode(),
        groups=groups,
        equal_pictures=pictures.equal,
    ).encode("utf-8", "backslashreplace")
    with disk_errors(out):
        write_output(out, page)
    return Reported(
        str(out),
        dataset.digest,
        len(page),
        dataset.written,
        len(dataset.classes),
        pictures.count,
        refused.total,
        refused.listed,
        missing,
    )


def _check_out(out: Path) -> None:
    """Raise DataprepError where the page cannot be written, before any work is done; it replaces only a page."""
    if not out.parent.is_dir():
        raise DataprepError(f"cannot write {out}: {out.parent} is not a folder")
    if not os.access(out.parent, os.W_OK):
        raise DataprepError(f"cannot write {out}: {out.parent} may not be written; choose another place with --out")
    if out.is_dir():
        raise DataprepError(f"{out} is a folder; name the file to write with --out")
    if out.exists():
        with out.open("rb") as file:
            if not file.read(64).lower().startswith(b"<!doctype html"):
                raise DataprepError(f"{out} is there and no page; choose another name, or remove it")


def _room(dataset: Dataset, refused: Refused, groups: list[Equal]) -> Room:
    """How many pictures of which size fit, when refused files and tables have had their part."""
    rows = CLASS_BYTES * min(len(dataset.classes), tables.MAX_CLASSES) + SHARD_BYTES * len(tables.shards(dataset))
    others = LOOK_BYTES + rows + (len(refused.packed) + REFUSED_BYTES + EQUAL_BYTES) * 4 // 3
    left = min(SHEETS_BYTES, (PAGE_BYTES - others) * 3 // 4)
    labels = tables.largest(dataset, MAX_SHEETS)
    return Room(
        frozenset(labels),
        choose_sheet(max(1, len(labels)), left),
        choose_sheet(max(1, len(refused.reasons)), REFUSED_BYTES, most=12),
        choose_sheet(max(1, len(groups)), EQUAL_BYTES, most=2),
    )


def _figures(dataset: Dataset, survey: Survey) -> dict[str, str]:
    drawn = {}
    if survey.measured.rows:
        drawn["short_sides"] = figures.short_sides(survey.measured.short_sides)
        drawn["aspects"] = figures.aspects(survey.measured.aspects)
    if survey.image_bytes:
        drawn["image_bytes"] = figures.image_bytes(survey.image_bytes)
    if len(dataset.classes) >= DRAWN_CLASSES:
        drawn["class_sizes"] = figures.class_sizes({name: split.class_rows for name, split in dataset.splits.items()})
    return drawn


def _missing(
    dataset: Dataset, survey: Survey, refused: Refused, origin: Origin, room: Room, pictures: Pictures
) -> list[str]:
    """What the page cannot show, and why, a sentence each."""
    found = [f"{problem}; look with dataprep verify" for problem in [*refused.problems, *survey.problems[:5]]]
    if len(survey.problems) > 5:
        found.append(f"{many(len(survey.problems) - 5, 'more shard')} cannot be read")
    if survey.measured.rows < dataset.written:
        rows = many(survey.measured.rows, "row")
        found.append(f"Sizes are those of a sample of {rows}: .work did not come along whole")
    if refused.total and origin.source is None:
        found.append("Refused files are listed without pictures: their folder is noted in .work, which is not here")
    elif refused.total and not os.path.isdir(encode_name(origin.source or "")):
        found.append(f"Refused files are listed without pictures: {origin.source} is not there any more")
    if pictures.hurried:
        found.append("Not all refused files that were to be shown were tried, for want of time")
    if refused.listed < refused.total:
        found.append(f"The page lists {refused.listed:,} of {many(refused.total, 'refused file')}, rejects.jsonl all")
    if dataset.written and not survey.sheets and not survey.problems:
        found.append("There are no pictures of the classes: the schema has no indexed label")
    elif len(room.labels) < len(dataset.classes):
        found.append(f"The {len(room.labels):,} largest of {len(dataset.classes):,} classes have pictures")
    if len(dataset.classes) > tables.MAX_CLASSES:
        found.append(f"The table of classes has the {tables.MAX_CLASSES:,} largest of {len(dataset.classes):,}")
    shards = sum(len(split.shards) for split in dataset.splits.values())
    if shards > tables.MAX_SHARDS:
        found.append(f"The table of shards has the first {tables.MAX_SHARDS:,} of {shards:,}")
    return found
