"""Series of measured values, thinned and smoothed for drawing."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """Values `y` over increasing `x` (steps or epochs), float64 (N,). NaN in `y` is a gap."""

    x: Floats
    y: Floats

    @property
    def measured(self) -> bool:
        """Return True if there is a value to draw."""
        return len(self.finite().x) > 0

    def finite(self) -> "Series":
        """Return the series without gaps."""
        finite = np.isfinite(self.x) & np.isfinite(self.y)
        return Series(self.x[finite], self.y[finite])


def thin(series: Series, buckets: int) -> Series:
    """Return about 2 x `buckets` points: the lowest and the highest point of each bucket, so that spikes are kept.

    A series of at most 2 x `buckets` points is returned unchanged. Otherwise gaps are dropped.
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
    """Return the moving average over `share` of the series, with triangular weights that are truncated at the ends.

    The average is centred, so a drop in the loss keeps its position. Gaps are left out.
    """
    series = series.finite()
    half = int(len(series.y) * share / 2)
    if half < 1:
        return series
    weights = np.bartlett(2 * half + 3)[1:-1]
    summed = np.convolve(series.y, weights, mode="same")
    return Series(series.x, summed / np.convolve(np.ones_like(series.y), weights, mode="same"))
