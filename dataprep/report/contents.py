"""What the page holds: gathered, brought into tables and figures, and written whole."""

import base64
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataprep.errors import DataprepError
from dataprep.pipeline import disk_errors
from dataprep.report import figures
from dataprep.report.origin import Origin, find_origin
from dataprep.report.page import need, render, shorten
from dataprep.report.pictures import Pictures, Room, equal_keys, make_pictures
from dataprep.report.refused import Equal, Refused, list_equal, list_refused
from dataprep.report.survey import ASPECT_STEPS, Sizes, Survey, Tell, look
from dataprep.thumbnails import choose_sheet
from dataprep.workdir import write_whole
from schemas.dataset import Dataset, load_dataset
from schemas.layout import REPORT

# What a page of 10 MB is spent on. Base64 makes four bytes of three.
PAGE_BYTES = 9_300_000
LOOK_BYTES = 250_000
REFUSED_BYTES = 450_000
EQUAL_BYTES = 350_000
SHEETS_BYTES = 3_900_000
CLASS_BYTES = 700  # of a row in the table of classes
MAX_CLASSES = 3000  # in that table
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
    survey = look(folder, dataset, room.sheets.pictures if room.sheets else 0, equal_keys(groups), tell)
    origin = find_origin(folder, dataset, refused.by_label)
    pictures = make_pictures(folder, dataset, survey, refused, origin.source, room, tell)
    missing = _missing(dataset, survey, refused, origin, room, pictures)
    page = render(
        "report.html",
        CONTENTS,
        name=shorten(folder.absolute().name or "dataset"),
        dataset=dataset,
        origin=origin,
        missing=missing,
        survey=survey,
        totals=_totals(dataset, origin),
        shards=_shards(dataset),
        policy=[(name.replace("_", " "), _shown(value)) for name, value in dataset.policy.items()],
        classes=_classes(dataset, refused),
        sizes=_sizes(survey.measured) if survey.measured.rows else None,
        figures=_figures(dataset, survey),
        sheets=_sheets(dataset, pictures, room),
        refused=refused,
        refused_pictures=pictures.refused,
        packed=base64.b64encode(refused.packed).decode(),
        groups=groups,
        equal_pictures=pictures.equal,
    ).encode("utf-8", "backslashreplace")
    with disk_errors(out):
        write_whole(out, page)
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
    """How many pictures of which size fit, when refused files and the table of classes have had their part."""
    table = CLASS_BYTES * min(len(dataset.classes), MAX_CLASSES)
    others = LOOK_BYTES + table + (len(refused.packed) + REFUSED_BYTES + EQUAL_BYTES) * 4 // 3
    left = min(SHEETS_BYTES, (PAGE_BYTES - others) * 3 // 4)
    shown = sum(1 for rows in _rows_of_classes(dataset) if rows)
    return Room(
        choose_sheet(max(1, shown), left),
        choose_sheet(max(1, len(refused.reasons)), REFUSED_BYTES, most=12),
        choose_sheet(max(1, len(groups)), EQUAL_BYTES, most=2),
    )


def _totals(dataset: Dataset, origin: Origin) -> dict[str, Any]:
    shards = [shard for split in dataset.splits.values() for shard in split.shards]
    fields = (f"{field.name} ({field.type}{', indexed' if field.index else ''})" for field in dataset.schema.fields)
    software = origin.software
    return {
        "splits": ", ".join(f"{name} {split.rows:,}" for name, split in dataset.splits.items()),
        "bytes": sum(shard.bytes + shard.index_bytes for shard in shards),
        "schema": f"{shorten(dataset.schema.name)}: {', '.join(fields)}",
        "software": ", ".join(f"{name} {version}" for name, version in software.items()) if software else "not noted",
    }


def _shards(dataset: Dataset) -> list[list[Any]]:
    return [
        [shard.name, name, shard.rows, shard.bytes, shard.index_bytes, {"text": shard.sha256, "mono": True}]
        for name, split in dataset.splits.items()
        for shard in split.shards
    ]


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "none" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _rows_of_classes(dataset: Dataset) -> list[int]:
    return [sum(rows) for rows in zip(*(split.class_rows for split in dataset.splits.values()), strict=True)]


def _classes(dataset: Dataset, refused: Refused) -> dict[str, Any]:
    """The table of classes: rows a split, and a bar against the largest class."""
    totals = _rows_of_classes(dataset)
    largest = max([1, *totals])
    labels = sorted(range(len(totals)), key=lambda label: -totals[label])[:MAX_CLASSES]
    columns = [("Class", "text"), ("Label", "number"), *((name, "number") for name in dataset.splits)]
    columns += [("All", "number"), ("Refused", "number"), ("Share", "number"), ("Against the largest", "plain")]
    rows = []
    for label in sorted(labels):
        parts = [split.class_rows[label] for split in dataset.splits.values()]
        share = totals[label] / max(1, dataset.written)
        bar = [(part / largest, series) for series, part in enumerate(parts, 1)]
        shown = {"text": f"{share:.2%}", "value": share}
        rows.append(
            [
                shorten(dataset.classes[label]),
                label,
                *parts,
                totals[label],
                refused.by_label[label],
                shown,
                {"text": "", "bar": bar},
            ]
        )
    filled = [total for total in totals if total]
    return {
        "columns": columns,
        "rows": rows,
        "smallest": min(filled, default=0),
        "largest": largest,
        "empty": len(totals) - len(filled),
        "lacking": {name: sum(map(_is_lacking, split.class_rows, totals)) for name, split in dataset.splits.items()},
    }


def _is_lacking(rows: int, total: int) -> bool:
    return total > 0 and not rows


def _sizes(measured: Sizes) -> dict[str, Any]:
    """Quantiles of the short side, ratios out of reach, and the sizes that are most frequent."""
    sides = sorted(measured.short_sides)
    common = [
        [f"{width} × {height}", count, {"text": f"{count / measured.rows:.1%}", "value": count}]
        for (width, height), count in measured.sizes.most_common(8)
    ]
    return {
        "rows": measured.rows,
        "smallest": sides[0],
        "median": _median(measured.short_sides),
        "largest": sides[-1],
        "different": len(measured.sizes),
        "beyond": sum(count for step, count in measured.aspects.items() if abs(step) > figures.BEYOND * ASPECT_STEPS),
        "common": common,
    }


def _median(values: Counter[int]) -> int:
    left = values.total() // 2
    for value in sorted(values):
        left -= values[value]
        if left < 0:
            return value
    return max(values)


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


def _sheets(dataset: Dataset, pictures: Pictures, room: Room) -> dict[str, Any]:
    """The contact sheets as the page's script wants them: names, rows, and pictures (JPEG, width, height, caption)."""
    totals = _rows_of_classes(dataset)
    labels = range(len(totals)) if room.sheets else []
    return {
        "side": room.sheets.side if room.sheets else 0,
        "pictures": room.sheets.pictures if room.sheets else 0,
        "classes": [
            [
                shorten(dataset.classes[label]),
                totals[label],
                [[made.base64, made.width, made.height, caption] for made, caption in pictures.sheets[label]],
            ]
            for label in labels
        ],
    }


def _missing(
    dataset: Dataset, survey: Survey, refused: Refused, origin: Origin, room: Room, pictures: Pictures
) -> list[str]:
    """What the page cannot show, and why, a sentence each."""
    found = [f"{problem}; look with dataprep verify" for problem in [*refused.problems, *survey.problems[:5]]]
    if len(survey.problems) > 5:
        found.append(f"{len(survey.problems) - 5} more shards cannot be read")
    if survey.measured.rows < dataset.written:
        found.append(f"Sizes are those of a sample of {survey.measured.rows:,} rows: .work did not come along whole")
    if refused.total and origin.source is None:
        found.append("Refused files are listed without pictures: their folder is noted in .work, which is not here")
    elif refused.total and not os.path.isdir(str(origin.source)):
        found.append(f"Refused files are listed without pictures: {origin.source} is not there any more")
    if pictures.hurried:
        found.append("Not all refused files that were to be shown were tried, for want of time")
    if refused.listed < refused.total:
        found.append(f"The page lists {refused.listed:,} of {refused.total:,} refused files, rejects.jsonl all")
    if room.sheets is None:
        found.append(f"There are no pictures of the classes: {len(dataset.classes):,} are too many for a page")
    elif not survey.sheets and not survey.problems:
        found.append("There are no pictures of the classes: the schema has no indexed label")
    if len(dataset.classes) > MAX_CLASSES:
        found.append(f"The table of classes has the {MAX_CLASSES:,} largest of {len(dataset.classes):,}")
    return found
