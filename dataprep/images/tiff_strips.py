"""Checks the strips or tiles of a TIFF's picture: libtiff makes a picture of some that are damaged."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dataprep.images.jpeg import jpeg_chain
from dataprep.images.lzw import count_lzw

_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC = 256, 257, 258, 259, 262
_OFFSETS, _SAMPLES, _ROWS, _COUNTS, _PLANAR = 273, 277, 278, 279, 284
_TILE_WIDTH, _TILE_HEIGHT, _TILE_OFFSETS, _TILE_COUNTS, _JPEG_TABLES = 322, 323, 324, 325, 347
_YCBCR = 6
_INFLATE_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class _Strip:
    """A strip or tile: the bytes of the file, how many they must decode to at least, and at most (a last strip may be
    as high as the others).
    """

    data: bytes
    least: int
    most: int


def damaged_strip(data: bytes, tags: dict[int, tuple[int, ...]]) -> str | None:
    """What is wrong with the first damaged strip or tile of the picture in a directory; None where nothing is seen.

    Deflate streams carry a checksum. LZW and PackBits must decode to the number of bytes that the strip's size asks
    for. A JPEG must be a whole chain of markers. Fax, ZSTD and LZMA are left to libtiff, which prints what it finds.
    """
    check = _CHECKS.get(tags.get(_COMPRESSION, (1,))[0])
    if check is None:
        return None
    for number, strip in enumerate(_strips(data, tags)):
        if problem := check(strip, tags):
            kind = "tile" if _TILE_OFFSETS in tags else "strip"
            return f"{kind} {number} {problem}"
    return None


def _strips(data: bytes, tags: dict[int, tuple[int, ...]]) -> Iterator[_Strip]:
    """The strips whose place and size are known; none where subsampled colour makes the size another."""
    tiled = _TILE_OFFSETS in tags
    offsets, counts = (tags.get(tag, ()) for tag in ((_TILE_OFFSETS, _TILE_COUNTS) if tiled else (_OFFSETS, _COUNTS)))
    width, height = (tags.get(tag, (0,))[0] for tag in (_WIDTH, _HEIGHT))
    bits, samples = tags.get(_BITS, (1,)), tags.get(_SAMPLES, (1,))[0]
    if len(offsets) != len(counts) or not width or not height:
        return
    depth = bits[0] if tags.get(_PLANAR) == (2,) else (sum(bits) if len(bits) == samples else bits[0] * samples)
    row = ((tags[_TILE_WIDTH][0] if tiled and _TILE_WIDTH in tags else width) * depth + 7) // 8
    rows = min(tags.get(_ROWS, (height,))[0], height) or height
    if tiled:
        rows = tags.get(_TILE_HEIGHT, (height,))[0] or height
    in_plane = -(-height // rows)
    known = tags.get(_PHOTOMETRIC, (0,))[0] != _YCBCR
    for number, (offset, count) in enumerate(zip(offsets, counts, strict=True)):
        left = rows if tiled else min(rows, height - number % in_plane * rows)
        if count and offset:
            yield _Strip(data[offset : offset + count], row * left if known else 0, row * rows if known else 1 << 62)


def _deflate(strip: _Strip, _tags: dict[int, tuple[int, ...]]) -> str | None:
    inflater = zlib.decompressobj()
    piece, values = strip.data, 0
    try:
        while piece and not inflater.eof and values <= strip.most:
            values += len(inflater.decompress(piece, _INFLATE_PIECE))
            piece = inflater.unconsumed_tail
    except zlib.error as error:
        return f"is damaged ({error})"
    return None if values >= strip.least else f"inflates to {values} of {strip.least} bytes"


def _lzw(strip: _Strip, _tags: dict[int, tuple[int, ...]]) -> str | None:
    if strip.data[:1] == b"\0" and strip.data[1:2] and strip.data[1] & 1:
        return None  # the order of bits of a draft of the format; libtiff reads it
    found = count_lzw(strip.data, 8, most_significant_first=True)
    if found is None or not strip.least or strip.least <= found.values <= strip.most:
        return None
    return f"decodes to {found.values} bytes, its size asks for {strip.least}"


def _packbits(strip: _Strip, _tags: dict[int, tuple[int, ...]]) -> str | None:
    data, at, values = strip.data, 0, 0
    while at < len(data) and values < strip.most:
        head = data[at]
        at += 2 + (head if head < 128 else 0) - (head == 128)
        values += head + 1 if head < 128 else (257 - head) % 129
    surplus = len(data) - at
    if not strip.least or (strip.least <= values <= strip.most and -1 <= surplus <= _PADDING):
        return None
    return f"decodes to {values} bytes with {surplus} left over, its size asks for {strip.least}"


_PADDING = 3  # bytes with which writers fill a strip up to a word


def _jpeg(strip: _Strip, _tags: dict[int, tuple[int, ...]]) -> str | None:
    if not strip.data.startswith(b"\xff\xd8"):
        return "is no JPEG"
    problem = jpeg_chain(strip.data).problem
    return f"is a damaged JPEG: {problem}" if problem else None


_CHECKS: dict[int, Callable[[_Strip, dict[int, tuple[int, ...]]], str | None]] = {
    5: _lzw,
    7: _jpeg,
    8: _deflate,
    32773: _packbits,
    32946: _deflate,
}
