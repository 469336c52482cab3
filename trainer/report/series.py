"""A measured value over the course of a run, made small enough to draw: thinned out with its extremes, and smoothed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """Values `y` at places `x` (steps or epochs, rising), float64 (N,). NaN in `y` is a gap."""

    x: Floats
    y: Floats

    @property
    def measured(self) -> bool:
        """Whether there is any value to draw."""
        return len(self.finite().x) > 0

    def finite(self) -> "Series":
        """The values that are numbers."""
        there = np.isfinite(self.x) & np.isfinite(self.y)
        return Series(self.x[there], self.y[there])


def thin(series: Series, buckets: int) -> Series:
    """At most 2 x `buckets` of the points: of each stretch of equally many points the lowest and the highest, in order.

    A single spike in a hundred thousand steps is kept. Gaps are dropped where anything is.
    """
    if len(series.x) <= 2 * buckets:
        return series
    series = series.finite()
    kept: list[int] = []
    for part in np.array_split(np.arange(len(series.y)), buckets):
        if len(part):
            kept += sorted({int(part[series.y[part].argmin()]), int(part[series.y[part].argmax()])})
    if kept:
        kept = sorted({0, *kept, len(series.y) - 1})
    return Series(series.x[kept], series.y[kept])


def smooth(series: Series, share: float = 0.05) -> Series:
    """A mean around each point over `share` of the series, weighted by a triangle; at the ends of what there is.

    It is centred, so that a drop in the loss stays where it was; values that are no numbers are left out.
    """
    series = series.finite()
    half = int(len(series.y) * share / 2)
    if half < 1:
        return series
    weights = np.bartlett(2 * half + 3)[1:-1]
    summed = np.convolve(series.y, weights, mode="same")
    return Series(series.x, summed / np.convolve(np.ones_like(series.y), weights, mode="same"))
