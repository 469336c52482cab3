"""Read the label file of one image, as in YOLO: one object per line."""

import math
from typing import NamedTuple

from schemas.images.policy import ImageRejected

_SLACK = 1e-4  # writers round coordinates


class YoloObject(NamedTuple):
    """An object: its class number, and a box (centre, width, height) or the points of a polygon, from 0 to 1.

    `where` is its file and line.
    """

    number: int
    values: list[float]
    where: str

    def corners(self, size: tuple[int, int]) -> list[float]:
        """Return left, top, right and bottom in an image of this width and height. A polygon has its bounding box."""
        if len(self.values) == 4:
            x, y, width, height = self.values
            sides = [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
        else:
            xs, ys = self.values[::2], self.values[1::2]
            sides = [min(xs), min(ys), max(xs), max(ys)]
        return [side * size[i % 2] for i, side in enumerate(sides)]

    def polygon(self, size: tuple[int, int]) -> list[float]:
        """Return the points of the polygon in an image of this width and height. Raises ImageRejected for a box."""
        if len(self.values) == 4:
            raise ImageRejected("invalid_annotation", f"{self.where}: it is a box, and a mask needs a polygon")
        return [value * size[i % 2] for i, value in enumerate(self.values)]


def read_labels(data: bytes, path: str, has_keypoints: bool) -> list[YoloObject]:
    """Return the objects in the file at `path`. With keypoints, each line is a box and its keypoints.

    Raises ImageRejected that names the line if one is malformed.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ImageRejected("invalid_annotation", f"{path} is not text") from None
    objects = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words:
            objects.append(_object(words[:5] if has_keypoints else words, f"{path}, line {number}"))
    return objects


def _object(words: list[str], where: str) -> YoloObject:
    if len(words) != 5 and (len(words) < 7 or len(words) % 2 == 0):
        expected = "a class and four numbers, or a class and the points of a polygon"
        raise ImageRejected("invalid_annotation", f"{where}: {len(words)} values, expected {expected}")
    try:
        number, values = float(words[0]), [float(word) for word in words[1:]]
    except ValueError:
        raise ImageRejected("invalid_annotation", f"{where}: it has a value that is no number") from None
    if not math.isfinite(number) or number < 0 or number != int(number):
        raise ImageRejected("invalid_annotation", f"{where}: the class is {words[0]:.20}, expected 0, 1, ...")
    if not all(-_SLACK <= value <= 1 + _SLACK for value in values):
        raise ImageRejected("invalid_annotation", f"{where}: it has a value that is not from 0 to 1")
    return YoloObject(int(number), values, where)
