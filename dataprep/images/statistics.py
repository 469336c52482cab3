"""Channel statistics of an image, from which mean and std of a dataset are computed."""

from operator import mul

from PIL import Image

_VALUES = range(256)
_SQUARES = [value * value for value in _VALUES]


def channel_moments(image: Image.Image) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Return the means of values and of squared values per RGB channel on 0..255.

    The mode is RGB or L. The sums are exact, so the result is the same on every machine.
    """
    counts = image.histogram() if image.mode == "RGB" else image.histogram() * 3
    pixels = image.width * image.height
    means, squares = [], []
    for channel in range(3):
        histogram = counts[256 * channel : 256 * (channel + 1)]
        means.append(sum(map(mul, _VALUES, histogram)) / pixels)
        squares.append(sum(map(mul, _SQUARES, histogram)) / pixels)
    return (means[0], means[1], means[2]), (squares[0], squares[1], squares[2])
