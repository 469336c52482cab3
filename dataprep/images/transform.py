"""Move annotations as the pixel policy moves the pixels: by EXIF orientation and resize."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from schemas.images.pixels import turn_upright

Floats = npt.NDArray[np.float32]

_TURNED = 5  # EXIF orientations from this one exchange width and height


@dataclass(frozen=True, slots=True)
class Transform:
    """From pixels of a file to pixels of the stored image.

    `angle` is the EXIF orientation of the file, 1 to 8. `upright` is width and height after turning, `final` after
    resizing.
    """

    angle: int
    upright: tuple[int, int]
    final: tuple[int, int]

    @property
    def original(self) -> tuple[int, int]:
        """Width and height of the file, before turning."""
        return self.upright[::-1] if self.angle >= _TURNED else self.upright

    def of_annotations(self, size: tuple[int, int] | None) -> "Transform | None":
        """Return the transform of annotations that were made on an image of this width and height.

        Annotations are of the file as it is stored, or of the upright image. None means the size is unknown, and the
        annotations are of the file. Returns None if the size is neither.
        """
        if size in (None, self.original):
            return self
        return Transform(1, self.upright, self.final) if size == self.upright else None

    def points(self, points: Floats) -> Floats:
        """Return points (x, y) of the file, of shape [n, 2], as points of the stored image."""
        width, height = self.original
        x, y = points[:, 0], points[:, 1]
        turned = {
            1: (x, y),
            2: (width - x, y),
            3: (width - x, height - y),
            4: (x, height - y),
            5: (y, x),
            6: (height - y, x),
            7: (height - y, width - x),
            8: (y, width - x),
        }[self.angle]
        scale = [final / upright for final, upright in zip(self.final, self.upright, strict=True)]
        moved: Floats = np.stack([turned[0] * scale[0], turned[1] * scale[1]], axis=1).astype(np.float32)
        return moved

    def boxes(self, boxes: Floats) -> Floats:
        """Return boxes (left, top, right, bottom) of the file, of shape [n, 4], as boxes of the stored image.

        An inverted box, whose right is left of its left, becomes NaN.
        """
        boxes = np.where((boxes[:, 2:] < boxes[:, :2]).any(axis=1, keepdims=True), np.float32(np.nan), boxes)
        corners = np.concatenate([self.points(boxes[:, :2]), self.points(boxes[:, 2:])], axis=1)
        low = np.minimum(corners[:, :2], corners[:, 2:])
        high = np.maximum(corners[:, :2], corners[:, 2:])
        moved: Floats = np.concatenate([low, high], axis=1)
        return moved

    def mask(self, mask: Image.Image) -> Image.Image:
        """Return a mask of the file as a mask of the stored image. Its values are not mixed."""
        upright = turn_upright(mask, self.angle)
        return upright if upright.size == self.final else upright.resize(self.final, Image.Resampling.NEAREST)
