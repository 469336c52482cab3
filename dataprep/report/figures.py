"""The figures of the page as SVG. The style sheet of the page sets their colours."""

import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from itertools import pairwise
from typing import Any

from dataprep.report.render import need
from dataprep.report.survey import ASPECT_STEPS, BYTES_STEPS

BINS = 36
BEYOND = 3.1  # in powers of two; 8:1 is within
_NEAR = ((1, 2), (2, 3), (1, 1), (3, 2), (2, 1))
_FAR = ((1, 8), (1, 4), (1, 2), (1, 1), (2, 1), (4, 1), (8, 1))
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


def short_sides(sides: Counter[int]) -> str:
    """Draw the histogram of the short side in pixels, with logarithmic bins."""
    edges, counts = side_bins(sides)
    figure, axes = _axes("short side, pixels")
    axes.bar(edges[:-1], counts, [after - before for before, after in pairwise(edges)], align="edge")
    axes.set_xscale("log")
    _ticks(axes, _round_numbers(min(sides), max(sides)), "{:,}".format)
    return _svg(figure)


def side_bins(sides: Counter[int]) -> tuple[list[float], list[int]]:
    """Return the edges and counts of at most BINS logarithmic bins."""
    low, high = min(sides), max(sides)
    number = max(1, min(BINS, high - low + 1))
    width = math.log((high + 1) / low) / number
    counts = [0] * number
    for side, count in sides.items():
        counts[min(number - 1, int(math.log(side / low) / width + 1e-9))] += count
    return [low * math.exp(edge * width) for edge in range(number + 1)], counts


def aspects(steps: Counter[int]) -> str:
    """Draw the histogram of width / height, with ASPECT_STEPS bins per power of two.

    Ratios beyond BEYOND are omitted.
    """
    figure, axes = _axes("width : height")
    within = {step / ASPECT_STEPS: count for step, count in steps.items() if abs(step) <= BEYOND * ASPECT_STEPS}
    axes.bar(list(within), list(within.values()), 0.9 / ASPECT_STEPS)
    limit = max([1.2, *(abs(power) + 0.2 for power in within)])
    axes.set_xlim(-limit, limit)
    ratios = _NEAR if limit < 2 else _FAR
    axes.set_xticks([math.log2(w / h) for w, h in ratios], [f"{w}:{h}" for w, h in ratios])
    return _svg(figure)


def image_bytes(steps: Counter[int]) -> str:
    """Draw the histogram of image sizes in bytes, with BYTES_STEPS bins per power of two."""
    figure, axes = _axes("bytes per image")
    axes.bar([step / BYTES_STEPS for step in steps], list(steps.values()), 0.9 / BYTES_STEPS)
    low, high = min(steps) / BYTES_STEPS - 0.5, max(steps) / BYTES_STEPS + 0.5
    axes.set_xlim(low, high)
    every = max(1, round((high - low) / 5))
    powers = range(math.ceil(low), math.floor(high) + 1, every)
    axes.set_xticks(list(powers), [_size(1 << power) for power in powers])
    return _svg(figure)


def class_sizes(rows: Mapping[str, Sequence[int]]) -> str:
    """Draw the rows of each class by split, the largest class first."""
    totals = [sum(counts) for counts in zip(*rows.values(), strict=True)]
    order = sorted(range(len(totals)), key=lambda label: -totals[label])
    figure, axes = _axes("classes, the largest first", "rows")
    below = [0] * len(order)
    for split in rows.values():
        above = [base + split[label] for base, label in zip(below, order, strict=True)]
        axes.fill_between(
            [0, *range(1, len(order) + 1)], [below[0], *below], [above[0], *above], step="pre", linewidth=0
        )
        below = above
    axes.set_xlim(0, len(order))
    axes.set_ylim(bottom=0)
    return _svg(figure)


def _axes(across: str, up: str = "images") -> tuple[Any, Any]:
    need("matplotlib")
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    with matplotlib.rc_context(fname=str(resources.files("schemas").joinpath("page", "figure.rc"))):
        figure = Figure(figsize=(4.6, 2.4))
        axes = figure.add_subplot()
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    return figure, axes


def _svg(figure: Any) -> str:
    import matplotlib

    with matplotlib.rc_context(fname=str(resources.files("schemas").joinpath("page", "figure.rc"))):
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return text.getvalue()


def _ticks(axes: Any, values: Sequence[int], shown: Any) -> None:
    axes.set_xticks(list(values), [shown(value) for value in values])
    axes.set_xticks([], minor=True)


def _round_numbers(low: int, high: int) -> list[int]:
    """Return at most eight round numbers from low to high."""
    power = 10 ** int(math.log10(max(1, low)))
    numbers = []
    while power <= high:
        numbers += [power * digit for digit in (1, 2, 5) if low <= power * digit <= high]
        power *= 10
    step = -(-len(numbers) // 8)
    return numbers[:: max(1, step)] or [low]


def _size(count: int) -> str:
    unit, name = next((unit, name) for unit, name in _UNITS if count >= unit)
    return f"{count // unit} {name}"
