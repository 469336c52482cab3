"""Check the strips or tiles of a TIFF. libtiff returns pixels for some damaged strips."""

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dataprep.images.formats.jpeg import check_jpeg_container
from dataprep.images.formats.lzw import count_lzw
from dataprep.images.formats.tiff.listener import strip_complaints

_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC = 256, 257, 258, 259, 262
_OFFSETS, _SAMPLES, _ROWS, _COUNTS, _PLANAR = 273, 277, 278, 279, 284
_TILE_WIDTH, _TILE_HEIGHT, _TILE_OFFSETS, _TILE_COUNTS = 322, 323, 324, 325
_YCBCR = 6
_DEFLATED_PIECE, _INFLATED_PIECE = 1 << 16, 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class _Strip:
    """A strip or tile: its bytes, and the minimum and maximum number of decoded bytes.

    The last strip may be full.
    """

    data: bytes
    least: int
    most: int


def damaged_strip(data: bytes, tags: dict[int, tuple[int, ...]]) -> str | None:
    """Return a message about the first damaged strip or tile of a directory; None if there is none.

    Deflate streams have a checksum. LZW and PackBits must decode to the number of bytes that the size of the strip
    requires. A JPEG must have a complete chain of markers. Fax, ZSTD and LZMA are checked by libtiff, see
    reported_damage and messages.py.
    """
    check = _CHECKS.get(tags.get(_COMPRESSION, (1,))[0])
    if check is None:
        return None
    for number, strip in enumerate(_strips(data, tags)):
        if problem := check(strip, tags):
            kind = "tile" if _TILE_OFFSETS in tags else "strip"
            return f"{kind} {number} {problem}"
    return None


_REPORTED = {2, 3, 4, 7}  # fax of three kinds and JPEG: libtiff reports their damage in warnings only
_FAX_DAMAGE = re.compile(r"Fax\w*: (Bad code word|Line length mismatch|Premature EO[FL]|Uncompressed data)")
_JPEG_DAMAGE = re.compile(
    r"JPEGLib: .*(remature end of|[Bb]ad Huffman code|instead of RST|extraneous bytes before marker 0x(c4|da|d\d))"
)
_AT_END = re.compile(r"(\d+) extraneous bytes before marker 0xd9")


def reported_damage(data: bytes, tags: dict[int, tuple[int, ...]]) -> str | None:
    """Return the message of libtiff or its libjpeg about damage in fax and JPEG strips; None if there is none."""
    if tags.get(_COMPRESSION, (1,))[0] not in _REPORTED:
        return None
    ends = [sum(extent) for extent in zip(*_extents(tags), strict=False)]
    for number, text in strip_complaints(data):
        filled = _AT_END.search(text)
        if filled and number < len(ends) and not any(data[ends[number] - 2 - int(filled[1]) : ends[number] - 2]):
            continue  # zeros with which a writer padded the scan
        if _FAX_DAMAGE.match(text) or _JPEG_DAMAGE.match(text):
            return text
    return None


def exceeds_file(data: bytes, tags: dict[int, tuple[int, ...]]) -> bool:
    """Return True if a strip or tile extends beyond the end of the file."""
    return any(sum(extent) > len(data) for extent in zip(*_extents(tags), strict=False))


def _extents(tags: dict[int, tuple[int, ...]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the offsets and sizes in bytes of the strips or tiles."""
    tiled = _TILE_OFFSETS in tags
    return tags.get(_TILE_OFFSETS if tiled else _OFFSETS, ()), tags.get(_TILE_COUNTS if tiled else _COUNTS, ())


def _strips(data: bytes, tags: dict[int, tuple[int, ...]]) -> Iterator[_Strip]:
    """Yield the strips with known offset and size.

    The decoded size is unknown if colours may be subsampled.
    """
    tiled = _TILE_OFFSETS in tags
    offsets, counts = _extents(tags)
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
    values = 0
    try:
        for at in range(0, len(strip.data), _DEFLATED_PIECE):  # small, since the rest of each is copied
            piece = strip.data[at : at + _DEFLATED_PIECE]
            while piece and not inflater.eof and values <= strip.most:
                values += len(inflater.decompress(piece, _INFLATED_PIECE))
                piece = inflater.unconsumed_tail
    except zlib.error as error:
        return f"is damaged ({error})"
    if not strip.least <= values <= strip.most:
        return f"inflates to {values} bytes{' or more' * (values > strip.most)}, but its size requires {strip.least}"
    # The checksum comes last: without it zeroed bytes look like pixels.
    return None if inflater.eof else "ends before its checksum"


def _lzw(strip: _Strip, _tags: dict[int, tuple[int, ...]]) -> str | None:
    if strip.data[:1] == b"\0" and strip.data[1:2] and strip.data[1] & 1:
        return None  # the bit order of a draft of the format, which libtiff reads
    count = count_lzw(strip.data, 8, most_significant_first=True)
    if count is None or not strip.least or strip.least <= count.values <= strip.most:
        return None
    return f"decodes to {count.values} bytes, but its size requires {strip.least}"


def _packbits(strip: _Strip, _tags: dict[int, tuple[int, ...]]) -> str | None:
    data, at, values = strip.data, 0, 0
    while at < len(data) and values < strip.most:
        head = data[at]
        at += 2 + (head if head < 128 else 0) - (head == 128)
        values += head + 1 if head < 128 else (257 - head) % 129
    surplus = len(data) - at
    if not strip.least or (strip.least <= values <= strip.most and -1 <= surplus <= _PADDING):
        return None
    return f"decodes to {values} bytes with {surplus} left over, but its size requires {strip.least}"


_PADDING = 3  # bytes that writers add up to a word


def _jpeg(strip: _Strip, _tags: dict[int, tuple[int, ...]]) -> str | None:
    if not strip.data.startswith(b"\xff\xd8"):
        return "is not a JPEG"
    problem = check_jpeg_container(strip.data).problem
    return f"is a damaged JPEG: {problem}" if problem else None


_CHECKS: dict[int, Callable[[_Strip, dict[int, tuple[int, ...]]], str | None]] = {
    5: _lzw,
    7: _jpeg,
    8: _deflate,
    32773: _packbits,
    32946: _deflate,
}
