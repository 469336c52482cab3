"""Output: the machine and its versions, one JSON line per row, and a table."""

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.suite import Row, Suite

PACKAGES = (
    "mindspore", "pillow", "numpy", "webdataset", "mosaicml-streaming", "tfrecord", "ffcv", "simplejpeg", "torch",
    "torchvision",
)  # fmt: skip
UNSHOWN = ("wall_s", "cpu_s", "startup_cpu_s", "images", "steps")  # in the table; JSON has all


def machine() -> dict[str, Any]:
    """Return versions, cores and load, on which the figures depend."""
    return {
        "python": platform.python_version(),
        **{name: found for name in PACKAGES if (found := _version(name))},
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def describe(images: Path) -> dict[str, Any]:
    """Return the number of files below a folder and their total size."""
    sizes = [path.stat().st_size for path in images.rglob("*") if path.is_file()]
    return {"files": len(sizes), "mean_kb": round(sum(sizes) / 1000 / max(1, len(sizes)), 1)}


def as_object(suite: Suite, row: Row) -> dict[str, Any]:
    """Return a row as a JSON object."""
    figures = {name: round(value, 3) for name, value in row.figures.items()}
    ratios = {f"{name}_ratio": round(value, 3) for name, value in row.ratios.items()}
    spread = {f"{suite.by[0]}_low": round(row.low, 3), f"{suite.by[0]}_high": round(row.high, 3)}
    return {
        "suite": suite.name,
        "way": row.way,
        **figures,
        **spread,
        "runs": row.runs,
        **ratios,
        "against": row.against,
    }


def extra_ratios(suite: Suite, rows: Sequence[Row]) -> dict[str, float]:
    """Return the ratios of the suite for which all ways were run."""
    medians: Mapping[str, Mapping[str, float]] = {row.way: row.figures for row in rows}
    found = {}
    for name, ratio in suite.extra.items():
        try:
            found[name] = ratio(medians)
        except (KeyError, ValueError, ZeroDivisionError):
            continue
    return found


def table(suite: Suite, rows: Sequence[Row]) -> Iterator[str]:
    """Return the lines of a Markdown table: figures, the compared ones first; ratios; the spread of the first."""
    by = suite.by
    told = [name for name in _names(rows) if name not in (*by, *UNSHOWN)]
    shown = [*by, *told]
    ratios = [f"{name.removesuffix('_s')} ratio" for name in by]
    yield f"| {suite.name} | {' | '.join([*shown, *ratios, 'lowest..highest'])} |"
    yield "|---" * (len(shown) + len(by) + 2) + "|"
    for row in rows:
        cells = [_cell(row.figures.get(name)) for name in shown] + [_cell(row.ratios.get(name)) for name in by]
        yield f"| {row.way} | {' | '.join([*cells, f'{_cell(row.low)}..{_cell(row.high)}'])} |"


def _names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row.figures))


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}"


def save(path: Path, record: dict[str, Any], rows: Sequence[Row]) -> None:
    """Write all results of a run into one file."""
    path.write_text(json.dumps(record | {"raw": [asdict(row) for row in rows]}, indent=1) + "\n")
