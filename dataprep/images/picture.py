"""What is asked of images, what one is when it is written, and why one is refused."""

from dataclasses import dataclass

from PIL import Image

from dataprep.images.formats.jpeg import jpeg_pixels

# Names in Picture.changed of what leaves the pixels, and the bytes that hold them, as they were.
LEFT_OUT = frozenset(["trailer_dropped", "metadata_stripped", "chunk_dropped"])


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
