"""Decodes an image so that no file is rejected for a fault of the machine: memory that could not be allocated."""

import re

from dataprep.images.check import image_size, normalise
from dataprep.images.picture import Picture
from schemas.images.policy import Policy, Refusal
from schemas.process.memory import BYTES_PER_PIXEL, FIXED_BYTES, has_room

_FILE_FACTOR = 4
# An allocation that fails although so much is free is the fault of a header that announces absurd sizes.
_ABSURD_BYTES = 8 << 30
# How codecs name a failed allocation: zlib, libtiff and Pillow (error codes), OpenJPEG, libavif.
_NAMED_SHORTAGE = re.compile(r"memory|allocat|error -[49]\b", re.IGNORECASE)


def decode(data: bytes, policy: Policy, want_pixels: bool = False, read_later: bool = False) -> Picture:
    """Call normalise, and tell a file at fault from a shortage of memory.

    Codecs report a failed allocation in words that also mean damage: "broken data stream" (libjpeg, OpenJPEG), "could
    not create decoder object" (WebP), "codec configuration error" (zlib). So what a codec says is believed only while
    the process may still allocate what the image takes. Raises Refusal, or MemoryError where it may not.
    """
    try:
        return normalise(data, policy, want_pixels, read_later)
    except Refusal as error:
        # Held no longer: its traceback keeps the decoded pixels alive.
        refusal, by_codec = Refusal(error.reason, error.detail), error.__context__ is not None
    named = _NAMED_SHORTAGE.search(refusal.detail) is not None
    if (by_codec or named) and not has_room(_needed(data, policy) + _ABSURD_BYTES * named):
        raise MemoryError(refusal.detail)
    raise refusal


def _needed(data: bytes, policy: Policy) -> int:
    """Upper bound of the bytes that decoding takes; images over policy.max_pixels are rejected before."""
    pixels = min(_pixels(data), policy.max_pixels)
    return FIXED_BYTES + BYTES_PER_PIXEL * pixels + _FILE_FACTOR * len(data)


def _pixels(data: bytes) -> int:
    """Width x height as announced; for WebP and AVIF without their library, which needs memory to open a file."""
    if data[8:12] == b"WEBP":
        width, height = _webp_size(data)
    elif data[4:8] == b"ftyp":
        sizes = [_big_endian_pair(data, found.end() + 4) for found in re.finditer(b"ispe", data[: 1 << 16])]
        width, height = max(sizes, default=(0, 0), key=lambda size: size[0] * size[1])
    else:
        width, height = image_size(data)
    return width * height


def _big_endian_pair(data: bytes, at: int) -> tuple[int, int]:
    return int.from_bytes(data[at : at + 4], "big"), int.from_bytes(data[at + 4 : at + 8], "big")


def _webp_size(data: bytes) -> tuple[int, int]:
    """Width and height in the first chunk of a WebP: extended (canvas), lossless or lossy."""
    kind = data[12:16]
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
