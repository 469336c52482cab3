"""What mean and std of a set are summed up from."""

from operator import mul
from typing import Any

_VALUES = range(256)
_SQUARES = [value * value for value in _VALUES]


def channel_moments(image: Any) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Mean of value and of squared value per RGB channel, on 0..255, of a Pillow image in mode RGB or L; exact sums, so
    the same on every machine.
    """
    counts = image.histogram() if image.mode == "RGB" else image.histogram() * 3
    pixels = image.width * image.height
    means, squares = [], []
    for channel in range(3):
        part = counts[256 * channel : 256 * (channel + 1)]
        means.append(sum(map(mul, _VALUES, part)) / pixels)
        squares.append(sum(map(mul, _SQUARES, part)) / pixels)
    return (means[0], means[1], means[2]), (squares[0], squares[1], squares[2])
