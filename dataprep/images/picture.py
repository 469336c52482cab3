"""An accepted image, as it is written."""

from dataclasses import dataclass

from PIL import Image

from dataprep.images.formats.jpeg import jpeg_pixels
from dataprep.images.transform import Transform

# Names in Picture.changed of changes that keep the pixels and their encoded bytes.
LEFT_OUT = frozenset(["trailer_dropped", "metadata_stripped", "chunk_dropped"])


@dataclass(frozen=True, slots=True)
class Picture:
    """An image as it is written: JPEG or PNG `data`, its size in pixels, and the names of the changes.

    `image` is the decoded image (mode RGB or L) if it was decoded at full size, else None. `encode_s` is the encoding
    time in seconds. `warnings` are names of unusual properties of the accepted image. `moved` is None if the pixels are
    where they are in the file.
    """

    data: bytes
    width: int
    height: int
    changed: tuple[str, ...]
    image: Image.Image | None
    encode_s: float = 0.0
    warnings: tuple[str, ...] = ()
    moved: Transform | None = None

    @property
    def transform(self) -> Transform:
        """How annotations of the file are moved to the stored image."""
        return self.moved or Transform(1, (self.width, self.height), (self.width, self.height))

    @property
    def passed(self) -> bool:
        """Return True if the encoded pixels are stored unchanged. Metadata may have been dropped."""
        return LEFT_OUT.issuperset(self.changed)

    def deciding_bytes(self) -> bytes:
        """Return bytes that are equal for equal pixels, to detect duplicates.

        For a JPEG that passed through, these are its pixel segments, otherwise the decoded pixels. So a JPEG equals a
        JPEG with other metadata, but not the same image in another format.
        """
        if self.passed and self.data.startswith(b"\xff\xd8"):
            return jpeg_pixels(self.data)
        if self.image is None:
            return self.data
        return f"{self.image.mode} {self.image.size}".encode() + self.image.tobytes()
