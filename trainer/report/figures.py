"""Figures drawn by matplotlib as SVG text, with the colours of schemas/page/figure.rc."""

import io
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.report.series import Series, smooth, thin

WIDTH, HEIGHT = 5.0, 2.8  # inches; a page scales them
BUCKETS = 400  # per curve, about one bucket per pixel; the lowest and the highest point of a bucket are drawn
COLOURS = 6  # number of colours in figure.rc; a seventh curve has the first colour again
DOTTED = 30  # with this many epochs or fewer, each epoch has a dot
WIDE = 20.0  # ratio of highest to lowest loss, above which the axis is logarithmic
LABEL_GAP = 0.075  # share of the plot's height between two labels at the ends of curves
LABEL_WIDTH = 0.05  # share of the plot's width
RARE = 0.005  # share of points that may be off the scale, so that a spike does not flatten the curve
MATRIX_SIDE = 500  # pixels


@dataclass(frozen=True)
class Curve:
    """A curve: the short label at its end, the number of its colour from 0, and its values (`series`).

    A `noisy` curve is drawn as a moving average over faint values.
    """

    label: str
    colour: int
    series: Series
    noisy: bool = False


@dataclass(frozen=True)
class Chart:
    """Curves over a common x axis. `name` is an id. `unit` follows the values; "%" shows shares as per cent.

    `marks` are the x values where a run was resumed. `from_zero` starts the y axis at 0. `may_log` allows a log axis.
    """

    name: str
    title: str
    over: str
    unit: str
    curves: tuple[Curve, ...]
    marks: tuple[float, ...] = ()
    from_zero: bool = False
    may_log: bool = False

    @property
    def log(self) -> bool:
        """Return True if the y axis is logarithmic."""
        values = np.concatenate([curve.series.finite().y for curve in self.curves])
        return self.may_log and bool(values.min() > 0) and float(values.max() / values.min()) > WIDE

    @property
    def in_words(self) -> str:
        """Return a description of the chart as text."""
        lines = []
        for curve in self.curves:
            values = curve.series.finite().y
            if len(values):
                factor, unit = (100, " %") if self.unit == "%" else (1, f" {self.unit}".rstrip())
                first, last, low, high = (
                    f"{factor * v:.4g}" for v in (values[0], values[-1], min(values), max(values))
                )
                lines.append(f"{curve.label} from {first} to {last}{unit}, lowest {low}, highest {high}")
        return f"{self.title} by {self.over}: {'; '.join(lines)}"


def draw(chart: Chart) -> str:
    """Return the chart as SVG text."""
    import matplotlib
    from matplotlib.figure import Figure

    look = resources.files("schemas").joinpath("page", "figure.rc")
    with resources.as_file(look) as path, matplotlib.rc_context(fname=path):
        figure = Figure(figsize=(WIDTH, HEIGHT))
        axes = figure.subplots()
        _draw_into(axes, chart)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    # Hundredths of a point are enough; matplotlib writes millionths.
    return re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), text.getvalue())


def _draw_into(axes: Any, chart: Chart) -> None:
    from matplotlib import ticker

    axes.set_title(chart.title + (", logarithmic" if chart.log else ""))
    axes.set_xlabel(chart.over)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    if chart.log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(ticker.LogLocator(numticks=6))
        axes.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axes.yaxis.set_minor_locator(ticker.NullLocator())
    else:
        axes.yaxis.set_major_locator(ticker.MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    if chart.unit == "%":
        axes.yaxis.set_major_formatter(ticker.PercentFormatter(1.0, decimals=None, symbol=" %"))
    elif chart.unit:
        axes.set_ylabel(chart.unit)
    for mark in chart.marks:
        axes.axvline(mark, color=axes.spines["left"].get_edgecolor(), linewidth=0.8, linestyle=(0, (2, 3)))
    ends = [_draw_curve(axes, curve, DOTTED if chart.over == "epoch" else 1) for curve in chart.curves]
    if not chart.log:
        _scale(axes, chart)
    if chart.from_zero:
        values = np.concatenate([curve.series.finite().y for curve in chart.curves])
        top = axes.get_ylim()[1]
        # The default margin depends on the range of the values, not on the values themselves.
        axes.set_ylim(0, top if values.max() > top else max(top, 1.08 * float(values.max())))
    if len(chart.curves) > 1:
        _label(axes, [(curve.label, *end) for curve, end in zip(chart.curves, ends, strict=True)])


def _draw_curve(axes: Any, curve: Curve, dotted: int) -> tuple[float, float]:
    """Draw a curve, with dots if it has at most `dotted` points. Return the last point (x, y)."""
    colour = f"C{curve.colour % COLOURS}"
    points = curve.series.finite()
    if curve.noisy:
        faint = thin(points, BUCKETS)
        axes.plot(faint.x, faint.y, color=colour, linewidth=0.7, alpha=0.3)
        points = smooth(points)
    points = thin(points, BUCKETS)
    marker = "o" if len(points.x) <= dotted else None
    axes.plot(points.x, points.y, color=colour, marker=marker, markersize=3.5)
    return float(points.x[-1]), float(points.y[-1])


def _scale(axes: Any, chart: Chart) -> None:
    """Limit the y axis to the range of nearly all points, and mark each point beyond at the edge."""
    all_values = np.concatenate([curve.series.finite().y for curve in chart.curves])
    most = float(np.quantile(all_values, 1 - RARE))
    low, high = float(all_values.min()), float(all_values.max())
    if len(all_values) < 2 / RARE or high - low <= 3 * (most - low) or most <= low:
        return
    top = low + 1.3 * (most - low)
    axes.set_ylim(low - 0.05 * (top - low), top)
    for curve in chart.curves:
        points = curve.series.finite()
        beyond = points.x[points.y > top]
        colour = f"C{curve.colour % COLOURS}"
        axes.plot(beyond, np.full(len(beyond), top), color=colour, marker=6, linestyle="", markersize=5, clip_on=False)


def _label(axes: Any, ends: Sequence[tuple[str, float, float]]) -> None:
    """Write each label at the end of its curve, and move labels apart that would overlap."""
    axes.autoscale_view()  # otherwise the positions are those of an empty plot
    in_axes = (axes.transData + axes.transAxes.inverted()).transform([(x, y) for _, x, y in ends])
    order = np.argsort(in_axes[:, 0], kind="stable")
    cuts = np.flatnonzero(np.diff(in_axes[order, 0]) > LABEL_WIDTH) + 1
    for near in np.split(order, cuts):
        in_axes[near, 0] = in_axes[near, 0].max()
        in_axes[near, 1] = spread(in_axes[near, 1].tolist(), LABEL_GAP)
    for (text, _, _), at in zip(ends, in_axes, strict=True):
        axes.annotate(text, at, (6, 0), "axes fraction", "offset points", va="center", annotation_clip=False)


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """Return the positions, in the same order, moved apart until neighbours differ by at least `gap`."""
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    moved = list(positions)
    for before, here in itertools.pairwise(order):
        moved[here] = max(moved[here], moved[before] + gap)
    if order and (over := moved[order[-1]] - 1.0) > 0:
        moved[order[-1]] -= over
        for here, after in zip(reversed(order[:-1]), reversed(order[1:]), strict=True):
            moved[here] = min(moved[here], moved[after] - gap)
    return moved


def row_shares(confusion: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a confusion matrix (classes, classes) as shares of the rows of each label; 0 for a label without rows."""
    shares: NDArray[np.float64] = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    return shares


def matrix_png(confusion: NDArray[np.int64]) -> bytes:
    """Return a confusion matrix (classes, classes) as PNG on a transparent background.

    Correct predictions are blue and wrong predictions are orange. A larger share of the rows of the label is more
    opaque. With more than 500 classes, a pixel shows the largest share of several classes.
    """
    from matplotlib import image

    side = len(confusion)
    step = math.ceil(side / MATRIX_SIDE)
    starts = np.arange(0, side, step)
    shares = row_shares(confusion)
    hits = np.diag(np.diag(shares))
    missed, hit = (
        np.maximum.reduceat(np.maximum.reduceat(part, starts, 0), starts, 1) for part in (shares - hits, hits)
    )
    pixels = np.zeros((*hit.shape, 4))
    pixels[..., :3] = np.where((hit >= missed)[..., None], (0.15, 0.39, 0.92), (0.76, 0.25, 0.05))
    strength = np.maximum(hit, missed)
    pixels[..., 3] = np.where(strength > 0, 0.15 + 0.85 * np.sqrt(strength), 0)  # a single row is still visible
    enlarged = max(1, 400 // len(pixels))
    buffer = io.BytesIO()
    image.imsave(buffer, pixels.repeat(enlarged, 0).repeat(enlarged, 1), format="png")
    return buffer.getvalue()
