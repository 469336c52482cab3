"""Check an image without rejecting it because this machine is short of memory."""

import re

from dataprep.images.check import image_size, normalise
from dataprep.images.picture import Picture
from schemas.images.policy import ImageRejected, Policy
from schemas.process.memory import BYTES_PER_PIXEL, FIXED_BYTES, has_room

_FILE_FACTOR = 4
# An allocation that fails although this much is free: the header announces absurd sizes.
_ABSURD_BYTES = 8 << 30
# Messages of failed allocations: zlib, libtiff and Pillow (error codes), OpenJPEG, libavif.
_NAMED_SHORTAGE = re.compile(r"memory|allocat|error -[49]\b", re.IGNORECASE)


def decode(data: bytes, policy: Policy, want_pixels: bool = False, read_later: bool = False) -> Picture:
    """Call normalise; raise MemoryError instead of ImageRejected if memory is short.

    Codecs report a failed allocation in words that also mean damage: "broken data stream" (libjpeg, OpenJPEG), "could
    not create decoder object" (WebP), "codec configuration error" (zlib). So a codec's error rejects the image only if
    the process can still allocate the memory that the image needs.
    """
    try:
        return normalise(data, policy, want_pixels, read_later)
    except ImageRejected as error:
        # A copy, since the traceback of the error keeps the decoded pixels in memory.
        refusal, by_codec = ImageRejected(error.reason, error.detail), error.__context__ is not None
    named = _NAMED_SHORTAGE.search(refusal.detail) is not None
    if (by_codec or named) and not has_room(_needed(data, policy) + _ABSURD_BYTES * named):
        raise MemoryError(refusal.detail)
    raise refusal


def _needed(data: bytes, policy: Policy) -> int:
    """Return an upper bound of the bytes for decoding. Images above policy.max_pixels are rejected earlier."""
    pixels = min(header_pixels(data), policy.max_pixels)
    return FIXED_BYTES + BYTES_PER_PIXEL * pixels + _FILE_FACTOR * len(data)


def header_pixels(data: bytes) -> int:
    """Return width x height from the header.

    It does not use the libraries for WebP and AVIF, which need memory to open a file.
    """
    if data[8:12] == b"WEBP":
        width, height = _webp_size(data)
    elif data[4:8] == b"ftyp":
        sizes = [_big_endian_pair(data, box.end() + 4) for box in re.finditer(b"ispe", data[: 1 << 16])]
        width, height = max(sizes, default=(0, 0), key=lambda size: size[0] * size[1])
    else:
        width, height = image_size(data)
    return width * height


def _big_endian_pair(data: bytes, at: int) -> tuple[int, int]:
    return int.from_bytes(data[at : at + 4], "big"), int.from_bytes(data[at + 4 : at + 8], "big")


def _webp_size(data: bytes) -> tuple[int, int]:
    """Return width and height from the first chunk of a WebP: extended (canvas), lossless or lossy."""
    kind = data[12:16]
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
