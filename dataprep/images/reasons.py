"""Reason code and detail for a file that Pillow cannot open or decode."""

from dataprep.images.formats.jpeg import JPEG_MAGIC, check_jpeg_container
from dataprep.images.formats.tiff.directories import describe_tiff
from dataprep.images.signatures import TARGA, UNKNOWN, describe_other, is_readable, is_targa
from schemas.images.png_chunks import PNG_MAGIC
from schemas.images.tiff import TIFF_MAGICS

_HEAD = 2100  # bytes: covers the magic bytes furthest from the start


def reason_of_unknown(data: bytes) -> tuple[str, str]:
    """Return reason and detail for data in a format that is not read."""
    if data.startswith(JPEG_MAGIC) and (kind := check_jpeg_container(data, headers_only=True).kind):
        return "unsupported_format", f"it is a {kind}"
    if data.startswith(TIFF_MAGICS) and (kind := describe_tiff(data)):
        return "unsupported_format", f"it is {kind}"
    if data.startswith(JPEG_MAGIC[:2]) or is_readable(data[:32]):
        return "truncated", "it ends inside its header, or its header is damaged"
    reason, name = TARGA if is_targa(data[:18], data[-18:]) else describe_other(data[:_HEAD])
    if name == UNKNOWN:
        for magic, kind in ((JPEG_MAGIC, "JPEG"), (PNG_MAGIC, "PNG")):
            at = data.find(magic, 0, 4096)
            if at > 0:
                return "corrupt", f"{at} bytes of other data precede the {kind} data"
    return reason, f"its content is {name}"


def reason_of_head(head: bytes) -> str | None:
    """Return the reason to reject a file by its first 2,100 bytes or more; None if its format is readable."""
    return None if is_readable(head[:32]) else reason_of_unknown(head)[0]


def reason_of_error(error: Exception) -> tuple[str, str]:
    """Return reason and detail for an error that a parser or codec of Pillow raised."""
    text = f"{error}" or type(error).__name__
    if text.startswith("Unsupported"):
        return "unsupported_format", text[:200]
    cut = isinstance(error, EOFError) or any(
        word in text.lower() for word in ("truncated", "not enough data", "end of")
    )
    return ("truncated" if cut else "corrupt"), text[:200]
