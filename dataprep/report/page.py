"""Collect the content of the dataset page and write the page."""

import base64
import os
from dataclasses import dataclass
from pathlib import Path

from dataprep.build.workdir import write_output
from dataprep.disk import disk_errors
from dataprep.errors import DataprepError
from dataprep.images.thumbnails import choose_sheet
from dataprep.items import StepProgress, encode_name
from dataprep.report import figures, tables
from dataprep.report.origin import Origin, find_origin
from dataprep.report.pictures import Limits, Pictures, keys_of, make_pictures
from dataprep.report.rejected import DuplicateGroup, Rejected, list_duplicates, list_rejected
from dataprep.report.render import need, render
from dataprep.report.survey import Survey, read_rows
from schemas.counting import many
from schemas.dataset import Dataset, load_dataset
from schemas.layout import REPORT
from schemas.page import shorten

# Size limits of the parts of a 10 MB page. Base64 makes four bytes of three.
PAGE_BYTES = 9_300_000
SHELL_BYTES = 250_000
REJECTED_BYTES = 450_000
DUPLICATES_BYTES = 350_000
SHEETS_BYTES = 3_900_000
CLASS_BYTES, SHARD_BYTES = 700, 450  # per row of their tables
MAX_SHEETS = 1000
DRAWN_CLASSES = 12  # minimum number of classes for the figure of class sizes
CONTENTS = (
    ("totals", "Totals"),
    ("classes", "Classes"),
    ("sizes", "Sizes"),
    ("formats", "Formats"),
    ("images", "Images"),
    ("rejected", "Rejected"),
    ("duplicates", "Duplicates"),
    ("shards", "Shards"),
    ("command", "Command"),
)


@dataclass(frozen=True)
class Reported:
    """A written page: its size in bytes, and the numbers of thumbnails, rejected files and listed rejected files.

    `missing` has a sentence for each part that the page cannot show.
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


def report(folder: Path, out: Path | None, progress: StepProgress) -> Reported:
    """Write the page of the sealed dataset in `folder` to `out`, by default OUT/report.html, atomically.

    Raises DataprepError if a package is missing or `out` cannot be written, ContractError if dataset.json is missing or
    damaged. Unreadable parts of the dataset are left out; the page says so. Memory does not grow with the rows.
    """
    need("jinja2", "matplotlib")
    dataset = load_dataset(folder)
    out = out or folder / REPORT
    _check_out(out)
    rejected = list_rejected(folder, dataset, 12)
    groups = list_duplicates(folder, rejected.problems)
    limits = _limits(dataset, rejected, groups)
    survey = read_rows(folder, dataset, limits.sheets, limits.labels, keys_of(groups), progress)
    origin = find_origin(folder, dataset, rejected.by_label)
    pictures = make_pictures(folder, dataset, survey, rejected, origin.source, limits, progress)
    missing = _missing(dataset, survey, rejected, origin, limits, pictures)
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
        extensions=tables.extensions(survey.measured),
        classes=tables.classes(dataset, rejected),
        sizes=tables.sizes(survey.measured) if survey.measured.rows else None,
        figures=_figures(dataset, survey),
        sheets=tables.sheets(dataset, pictures, limits),
        rejected=rejected,
        rejected_pictures=pictures.rejected,
        packed=base64.b64encode(rejected.packed).decode(),
        groups=groups,
        duplicate_pictures=pictures.duplicates,
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
        rejected.total,
        rejected.listed,
        missing,
    )


def _check_out(out: Path) -> None:
    """Raise DataprepError if the page cannot be written to `out`.

    If `out` exists, it must be a page.
    """
    if not out.parent.is_dir():
        raise DataprepError(f"cannot write {out}: {out.parent} is not a folder")
    if not os.access(out.parent, os.W_OK):
        raise DataprepError(f"cannot write {out}: {out.parent} is not writable; choose another path with --out")
    if out.is_dir():
        raise DataprepError(f"{out} is a folder; name the file to write with --out")
    if out.exists():
        with out.open("rb") as file:
            if not file.read(64).lower().startswith(b"<!doctype html"):
                raise DataprepError(f"{out} exists and is not a report page; choose another name, or remove it")


def _limits(dataset: Dataset, rejected: Rejected, groups: list[DuplicateGroup]) -> Limits:
    """Return the number and size of the pictures for which the page has room."""
    rows = CLASS_BYTES * min(len(dataset.classes), tables.MAX_CLASSES) + SHARD_BYTES * len(tables.shards(dataset))
    other_bytes = SHELL_BYTES + rows + (len(rejected.packed) + REJECTED_BYTES + DUPLICATES_BYTES) * 4 // 3
    left = min(SHEETS_BYTES, (PAGE_BYTES - other_bytes) * 3 // 4)
    labels = tables.largest(dataset, MAX_SHEETS)
    return Limits(
        frozenset(labels),
        choose_sheet(max(1, len(labels)), left),
        choose_sheet(max(1, len(rejected.reasons)), REJECTED_BYTES, most=12),
        choose_sheet(max(1, len(groups)), DUPLICATES_BYTES, most=2),
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
    dataset: Dataset, survey: Survey, rejected: Rejected, origin: Origin, limits: Limits, pictures: Pictures
) -> list[str]:
    """Return a sentence for each part that the page cannot show."""
    missing = [f"{problem}; run dataprep verify" for problem in [*rejected.problems, *survey.problems[:5]]]
    if len(survey.problems) > 5:
        missing.append(f"{many(len(survey.problems) - 5, 'more shard')} cannot be read")
    if survey.measured.rows < dataset.written:
        rows = many(survey.measured.rows, "row")
        missing.append(f"Sizes are from a sample of {rows}: .work is missing from this copy, or incomplete")
    if rejected.total and origin.source is None:
        missing.append("Rejected files have no pictures: .work, which names their folder, is missing from this copy")
    elif rejected.total and not os.path.isdir(encode_name(origin.source or "")):
        missing.append(f"Rejected files have no pictures: {origin.source} no longer exists")
    if pictures.timed_out:
        missing.append("Some rejected files have no picture: decoding them took too long")
    if rejected.listed < rejected.total:
        files = many(rejected.total, "rejected file")
        missing.append(f"The page lists {rejected.listed:,} of {files}; rejects.jsonl lists all")
    if dataset.written and not survey.sheets and not survey.problems:
        missing.append("Classes have no pictures: the schema has no indexed label")
    elif len(limits.labels) < len(dataset.classes):
        missing.append(f"Only the {len(limits.labels):,} largest of {len(dataset.classes):,} classes have pictures")
    if len(dataset.classes) > tables.MAX_CLASSES:
        missing.append(f"The table of classes has only the {tables.MAX_CLASSES:,} largest of {len(dataset.classes):,}")
    shards = sum(len(split.shards) for split in dataset.splits.values())
    if shards > tables.MAX_SHARDS:
        missing.append(f"The table of shards has only the first {tables.MAX_SHARDS:,} of {shards:,}")
    return missing
