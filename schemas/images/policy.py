"""The pixel policy that dataset.json records: which images are accepted, and what is done to their pixels."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Policy:
    """Which images are accepted, and what is done to their pixels.

    `check` is decode (every image is read to its last byte) or header (pixels that need not change are not read, as in
    other shard writers). `resize` is the short side in pixels or None, `quality` the JPEG quality, 1 to 100. `icc` is
    ignore (as the trainer's decoder does) or convert (to sRGB), `animation` is first (frame or page) or reject.
    `max_aspect` is the long side divided by the short side. `strip_metadata` removes EXIF, XMP, comments and the like
    from files that pass through; re-encoded files have no metadata.

    `depth_bits`, 9 to 16, is the number of bits in use of a 16-bit value: values are shifted right by depth_bits - 8.
    `depth_range` (low, high) maps these values of grey pixels of more than 8 bits to 0 and 255; without it 32-bit,
    signed and float pixels are rejected.

    In all cases the EXIF orientation is applied, pixels become 8-bit RGB or grey, and transparent pixels are composited
    over `background`.
    """

    check: str = "decode"
    image_format: str = "keep"
    quality: int = 95
    resize: int | None = None
    icc: str = "ignore"
    animation: str = "first"
    min_side: int = 1
    max_aspect: float | None = None
    max_pixels: int = 178_956_970
    max_bytes: int = 256 << 20
    background: tuple[int, int, int] = (255, 255, 255)
    strip_metadata: bool = False
    depth_bits: int = 16
    depth_range: tuple[float, float] | None = None

    @classmethod
    def from_dict(cls, value: Mapping[str, object]) -> "Policy":
        """Return the policy recorded in dataset.json. Fields that an older dataset lacks get their defaults."""
        known = {field.name: value[field.name] for field in fields(cls) if field.name in value}
        # JSON has no tuples.
        values: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in known.items()}
        return cls(**values)


@dataclass
class Notes:
    """Steps that changed the pixels and warnings about them: the names in Picture.changed and Picture.warnings.

    `angle` is the EXIF orientation that was applied, `upright` is width and height after it and before resizing.
    """

    changed: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    angle: int = 1
    upright: tuple[int, int] = (0, 0)


class ImageRejected(Exception):
    """An image is rejected, with a reason code and a detail for the person who can fix the image."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
