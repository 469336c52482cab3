"""What is asked of images, what one is when it is written, and why one is refused."""

from dataclasses import dataclass, field

from PIL import Image

from dataprep.images.formats.jpeg import jpeg_pixels


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


# Names in Picture.changed of what leaves the pixels, and the bytes that hold them, as they were.
LEFT_OUT = frozenset(["trailer_dropped", "metadata_stripped", "chunk_dropped"])


@dataclass
class Notes:
    """What is noted while pixels are brought to the policy: the names in Picture.changed and Picture.warnings."""

    changed: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Picture:
    """An image as it is written: JPEG or PNG `data`, its size in pixels, and what was changed on the way.

    `image` holds the decoded pixels where they were at hand or asked for (mode RGB or L), else None. `encode_s` is
    the seconds that encoding took. `warnings` name what is odd about the image, though it is accepted.
    """

    data: bytes
    width: int
    height: int
    changed: tuple[str, ...]
    image: Image.Image | None
    encode_s: float = 0.0
    warnings: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Return True for pixels that are stored as they came, whatever was left out of the file around them."""
        return LEFT_OUT.issuperset(self.changed)

    def deciding_bytes(self) -> bytes:
        """What is equal for equal pixels: the decoded ones, but for a JPEG that passed through what decides them. So a
        JPEG is known again with other metadata, but not in another format.
        """
        if self.passed and self.data.startswith(b"\xff\xd8"):
            return jpeg_pixels(self.data)
        if self.image is None:
            return self.data
        return f"{self.image.mode} {self.image.size}".encode() + self.image.tobytes()


class Refusal(Exception):
    """The image cannot become a row: a reason code, and a detail for the person who may mend it."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
