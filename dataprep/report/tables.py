"""The tables of the page, as its template wants them."""

from collections import Counter
from typing import Any

from dataprep.report.figures import BEYOND
from dataprep.report.origin import Origin
from dataprep.report.pictures import Pictures, Room
from dataprep.report.refused import Refused
from dataprep.report.survey import ASPECT_STEPS, Sizes
from schemas.dataset import Dataset
from schemas.page import shorten

MAX_CLASSES = 2000
MAX_SHARDS = 1000
COMMON = 8  # sizes
ENDINGS = 20


def totals(dataset: Dataset, origin: Origin) -> dict[str, Any]:
    """What the set is as a whole."""
    files = dataset.shards
    fields = (f"{field.name} ({field.type}{', indexed' if field.index else ''})" for field in dataset.schema.fields)
    software = origin.software
    return {
        "splits": ", ".join(f"{name} {split.rows:,}" for name, split in dataset.splits.items()),
        "bytes": sum(shard.bytes + shard.index_bytes for shard in files),
        "shards": len(files),
        "schema": f"{shorten(dataset.schema.name)}: {', '.join(fields)}",
        "software": ", ".join(f"{name} {version}" for name, version in software.items()) if software else "not noted",
    }


def shards(dataset: Dataset) -> list[list[Any]]:
    """Name, split, rows, bytes and digest of the first MAX_SHARDS shards."""
    rows = [
        [shard.name, name, shard.rows, shard.bytes, shard.index_bytes, {"text": shard.sha256, "mono": True}]
        for name, split in dataset.splits.items()
        for shard in split.shards
    ]
    return rows[:MAX_SHARDS]


def policy(dataset: Dataset) -> list[tuple[str, str]]:
    """What was asked of images, and done to their pixels."""
    return [(name.replace("_", " "), _shown(value)) for name, value in dataset.policy.items()]


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "none" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def largest(dataset: Dataset, count: int) -> list[int]:
    """The labels of the classes with the most rows, in order."""
    in_class = _rows_of_classes(dataset)
    return sorted(sorted(range(len(in_class)), key=lambda label: -in_class[label])[:count])


def _rows_of_classes(dataset: Dataset) -> list[int]:
    return [sum(rows) for rows in zip(*(split.class_rows for split in dataset.splits.values()), strict=True)]


def classes(dataset: Dataset, refused: Refused) -> dict[str, Any]:
    """The table of classes: rows a split, and a bar against the largest class."""
    in_class = _rows_of_classes(dataset)
    most = max([1, *in_class])
    columns = [("Class", "text"), ("Label", "number"), *((name, "number") for name in dataset.splits)]
    columns += [("All", "number"), ("Refused", "number"), ("Share", "number"), ("Against the largest", "plain")]
    rows = []
    for label in largest(dataset, MAX_CLASSES):
        parts = [split.class_rows[label] for split in dataset.splits.values()]
        share = in_class[label] / max(1, dataset.written)
        bar = [(part / most, series) for series, part in enumerate(parts, 1)]
        shown = {"text": f"{share:.2%}", "value": share}
        rows.append(
            [
                shorten(dataset.classes[label]),
                label,
                *parts,
                in_class[label],
                refused.by_label[label],
                shown,
                {"text": "", "bar": bar},
            ]
        )
    filled = [total for total in in_class if total]
    return {
        "columns": columns,
        "rows": rows,
        "smallest": min(filled, default=0),
        "largest": most,
        "empty": len(in_class) - len(filled),
        "lacking": {name: sum(map(_is_lacking, split.class_rows, in_class)) for name, split in dataset.splits.items()},
    }


def _is_lacking(rows: int, total: int) -> bool:
    return total > 0 and not rows


def sizes(measured: Sizes) -> dict[str, Any]:
    """Quantiles of the short side, ratios out of reach, and the sizes that are most frequent."""
    sides = sorted(measured.short_sides)
    common = [
        [f"{width} × {height}", count, {"text": f"{count / measured.rows:.1%}", "value": count}]
        for (width, height), count in measured.sizes.most_common(COMMON)
    ]
    return {
        "rows": measured.rows,
        "smallest": sides[0],
        "median": _median(measured.short_sides),
        "largest": sides[-1],
        "different": len(measured.sizes),
        "beyond": sum(count for step, count in measured.aspects.items() if abs(step) > BEYOND * ASPECT_STEPS),
        "common": common,
    }


def _median(values: Counter[int]) -> int:
    left = values.total() // 2
    for value in sorted(values):
        left -= values[value]
        if left < 0:
            return value
    return max(values)


def endings(measured: Sizes) -> dict[str, int]:
    """How many rows come from files of which ending, the rest of many endings as one."""
    common = dict(measured.endings.most_common(ENDINGS))
    others = measured.endings.total() - sum(common.values())
    return {name or "none": count for name, count in common.items()} | ({"others": others} if others else {})


def sheets(dataset: Dataset, pictures: Pictures, room: Room) -> dict[str, Any]:
    """The contact sheets as the page's script wants them: names, rows, and pictures (JPEG, width, height, caption)."""
    in_class = _rows_of_classes(dataset)
    return {
        "side": room.sheets.side,
        "pictures": room.sheets.pictures,
        "classes": [
            [
                shorten(dataset.classes[label]),
                in_class[label],
                [[made.base64, made.width, made.height, caption] for made, caption in pictures.sheets[label]],
            ]
            for label in sorted(room.labels)
        ],
    }
