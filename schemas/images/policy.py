"""The pixel policy: what is asked of images, and why one is rejected."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Policy:
    """What is asked of an image and done to its pixels.

    `check` is decode (every image is read to its last byte) or header (no pixel is looked at that need not change,
    as other shard writers do). `resize` is the short side
    in pixels, or None; `quality` is JPEG's, 1..100. `icc` is ignore (as the trainer's decoder does) or convert (to
    sRGB), `animation` first (frame or page) or reject. `max_aspect` is the long side over the short one.
    `strip_metadata` leaves EXIF, XMP, comments and the like out of files that pass through; those that are encoded
    have none.

    `depth_bits`, 9..16, is how many bits of a 16-bit value are used: values are shifted down by so many less eight.
    `depth_range` (low, high) maps these values of grey pixels of more than 8 bits to 0 and 255; without it 32-bit,
    signed and float pixels are refused.

    Always: the EXIF orientation is applied, colour is 8-bit RGB or grey, and transparent pixels are laid over
    `background`.
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


@dataclass
class Notes:
    """What is noted while pixels are brought to the policy: the names in Picture.changed and Picture.warnings."""

    changed: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class Refusal(Exception):
    """The image cannot become a row: a reason code, and a detail for the person who may mend it."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
