"""Make the tables of the page in the form that the template expects."""

from collections import Counter
from collections.abc import Sequence

from dataprep.report.figures import BEYOND
from dataprep.report.origin import Origin
from dataprep.report.pictures import Limits, Pictures
from dataprep.report.rejected import Rejected
from dataprep.report.survey import ASPECT_STEPS, Sizes
from schemas.dataset import Dataset
from schemas.page import shorten

MAX_CLASSES = 2000
MAX_SHARDS = 1000
FREQUENT_SIZES = 8
EXTENSIONS = 20


def totals(dataset: Dataset, origin: Origin) -> dict[str, object]:
    """Return the totals of the dataset."""
    fields = (f"{field.name} ({field.type}{', indexed' if field.index else ''})" for field in dataset.schema.fields)
    software = origin.software
    return {
        "splits": ", ".join(f"{name} {split.rows:,}" for name, split in dataset.splits.items()),
        "bytes": sum(shard.bytes + shard.index_bytes for shard in dataset.shards),
        "shards": len(dataset.shards),
        "schema": f"{shorten(dataset.schema.name)}: {', '.join(fields)}",
        "software": ", ".join(f"{name} {version}" for name, version in software.items()) if software else "unknown",
    }


def shards(dataset: Dataset) -> list[list[object]]:
    """Return name, split, rows, bytes and digest of the first MAX_SHARDS shards."""
    rows = [
        [shard.name, name, shard.rows, shard.bytes, shard.index_bytes, {"text": shard.sha256, "mono": True}]
        for name, split in dataset.splits.items()
        for shard in split.shards
    ]
    return rows[:MAX_SHARDS]


def policy(dataset: Dataset) -> list[tuple[str, str]]:
    """Return the pixel policy: requirements on images, and changes to their pixels."""
    return [(name.replace("_", " "), _shown(value)) for name, value in dataset.policy.items()]


def _shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "none" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def largest(dataset: Dataset, count: int) -> list[int]:
    """Return the labels of the `count` largest classes, in label order."""
    class_rows = _rows_of_classes(dataset)
    return sorted(sorted(range(len(class_rows)), key=lambda label: -class_rows[label])[:count])


def _rows_of_classes(dataset: Dataset) -> list[int]:
    return [sum(rows) for rows in zip(*(split.class_rows for split in dataset.splits.values()), strict=True)]


def classes(dataset: Dataset, rejected: Rejected) -> dict[str, object]:
    """Return the table of classes: rows per split, and a bar relative to the largest class."""
    class_rows = _rows_of_classes(dataset)
    largest_rows = max([1, *class_rows])
    columns = [("Class", "text"), ("Label", "number"), *((name, "number") for name in dataset.splits)]
    columns += [("All", "number"), ("Rejected", "number"), ("Share", "number"), ("Relative to the largest", "plain")]
    rows = []
    for label in largest(dataset, MAX_CLASSES):
        counts = [split.class_rows[label] for split in dataset.splits.values()]
        share = class_rows[label] / max(1, dataset.written)
        bar = [(count / largest_rows, series) for series, count in enumerate(counts, 1)]
        percentage = {"text": f"{share:.2%}", "value": share}
        rows.append(
            [
                shorten(dataset.classes[label]),
                label,
                *counts,
                class_rows[label],
                rejected.by_label[label],
                percentage,
                {"text": "", "bar": bar},
            ]
        )
    nonempty = [total for total in class_rows if total]
    return {
        "columns": columns,
        "rows": rows,
        "smallest": min(nonempty, default=0),
        "largest": largest_rows,
        "empty": len(class_rows) - len(nonempty),
        "lacking": {name: _lacking(split.class_rows, class_rows) for name, split in dataset.splits.items()},
    }


def _lacking(rows: Sequence[int], totals: Sequence[int]) -> int:
    """Return the number of classes that have rows, but none in this split."""
    return sum(total > 0 and not count for count, total in zip(rows, totals, strict=True))


def sizes(measured: Sizes) -> dict[str, object]:
    """Return quantiles of the short side, the number of extreme ratios, and the most frequent sizes."""
    sides = sorted(measured.short_sides)
    frequent = [
        [f"{width} × {height}", count, {"text": f"{count / measured.rows:.1%}", "value": count}]
        for (width, height), count in measured.sizes.most_common(FREQUENT_SIZES)
    ]
    return {
        "rows": measured.rows,
        "smallest": sides[0],
        "median": _median(measured.short_sides),
        "largest": sides[-1],
        "different": len(measured.sizes),
        "beyond": sum(count for step, count in measured.aspects.items() if abs(step) > BEYOND * ASPECT_STEPS),
        "frequent": frequent,
    }


def _median(values: Counter[int]) -> int:
    left = values.total() // 2
    for value in sorted(values):
        left -= values[value]
        if left < 0:
            return value
    return max(values)


def extensions(measured: Sizes) -> dict[str, int]:
    """Return rows by file name extension. Rare extensions are summed as `others`."""
    frequent = dict(measured.extensions.most_common(EXTENSIONS))
    others = measured.extensions.total() - sum(frequent.values())
    return {name or "none": count for name, count in frequent.items()} | ({"others": others} if others else {})


def sheets(dataset: Dataset, pictures: Pictures, limits: Limits) -> dict[str, object]:
    """Return the contact sheets for the script: class names, rows, and pictures (JPEG, width, height, caption)."""
    class_rows = _rows_of_classes(dataset)
    return {
        "side": limits.sheets.side,
        "pictures": limits.sheets.pictures,
        "classes": [
            [
                shorten(dataset.classes[label]),
                class_rows[label],
                [[image.base64, image.width, image.height, caption] for image, caption in pictures.sheets[label]],
            ]
            for label in sorted(limits.labels)
        ],
    }
