"""Check the chunks and compressed pixels of a PNG, and drop chunks that the pixels do not need.

The pixels are inflated but not decoded.
"""

import struct
import zlib

from dataprep.images.formats.container import ContainerCheck
from schemas.images.png_chunks import PNG_MAGIC, bad_extras, checksum_holds, chunks, is_needed, without

_KNOWN_CRITICAL = (b"IHDR", b"PLTE", b"IDAT", b"IEND")
# Each takes some microseconds to check: 20 MB of empty chunks take 14 s. 256 MiB in chunks of 8 KiB are 32,768.
_MAX_CHUNKS = 200_000
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by colour type
_INTERLACED = 1
# First column, first row, step across and step down of the seven passes of Adam7.
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
# Ancillary chunks that define the meaning of pixels. The others are metadata: text, times, EXIF, private chunks.
_MEANING = frozenset([b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"cICP", b"sBIT", b"bKGD", b"pHYs", b"hIST"])
_MEANING_OF_FRAMES = frozenset([b"acTL", b"fcTL", b"fdAT"])


def check_png_container(data: bytes, headers_only: bool = False) -> ContainerCheck:
    """Check the chunks and checksums from IHDR to IEND, or up to the pixels if `headers_only`.

    A plain PNG is 8-bit grey or RGB without transparency or animation.
    """
    plain = False
    end = 0
    kinds: set[bytes] = set()
    for number, (at, kind, size) in enumerate(chunks(data)):
        if number > _MAX_CHUNKS:
            return ContainerCheck(f"it has more than {_MAX_CHUNKS} chunks", checksum=True)
        if size < 0:
            return ContainerCheck(f"it ends inside a {kind.decode('latin-1')!r} chunk")
        if kind == b"CgBI":
            return ContainerCheck(
                "it is a PNG in Apple's own format; convert it to a standard PNG first", unsupported=True
            )
        if headers_only and kind == b"IDAT":
            break
        problem = _chunk_problem(data, at, kind, size)
        if not problem and not kinds and (kind, size) != (b"IHDR", 13):
            problem = "it does not begin with an IHDR chunk"
        if problem:
            return ContainerCheck(problem, checksum=True)
        if kind == b"IHDR":
            plain = data[at + 16] == 8 and data[at + 17] in (0, 2)
        kinds.add(kind)
        end = at + 12 + size
    if not headers_only and not {b"IHDR", b"IDAT", b"IEND"} <= kinds:
        return ContainerCheck("it ends without an IEND chunk" if b"IDAT" in kinds else "it has no image data")
    plain = plain and not kinds & {b"tRNS", b"acTL"}
    return ContainerCheck(plain=plain, bad_extra=bool(bad_extras(data)), end=end if b"IEND" in kinds else png_end(data))


def _chunk_problem(data: bytes, at: int, kind: bytes, size: int) -> str | None:
    name = repr(kind.decode("latin-1"))
    if not kind.isalpha():
        return f"a chunk has the invalid name {name}"
    if is_needed(kind) and not checksum_holds(data, at, size):
        return f"the checksum of a {name} chunk is wrong"
    if not kind[0] & 0x20 and kind not in _KNOWN_CRITICAL:
        return f"it has a critical chunk {name} that no decoder knows"
    return None


def png_end(data: bytes) -> int:
    """Return the offset after the IEND of a PNG; 0 if there is no IEND."""
    return next((at + 12 + size for at, kind, size in chunks(data) if kind == b"IEND" and size >= 0), 0)


def png_stream_problem(data: bytes) -> tuple[str, str] | None:
    """Return reason and detail of damage in the compressed pixels of a complete PNG, some of which Pillow ignores.

    EXTRA_DATA for a sound picture followed by other data. One piece is in memory at a time, and no more is inflated
    than the size of the picture requires.
    """
    left = _pixel_bytes(data)
    inflater = zlib.decompressobj()
    try:
        for at, kind, size in chunks(data):
            piece = data[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
            if piece and inflater.eof:
                return EXTRA_DATA
            while piece and not inflater.eof:
                # One byte more than expected, or the checksum at the end would not be read.
                left -= len(inflater.decompress(piece, min(_INFLATE_PIECE, left + 1)))
                if left < 0 or inflater.unused_data:
                    return EXTRA_DATA if left <= 0 else _TOO_FEW
                piece = inflater.unconsumed_tail
    except zlib.error as error:
        return "corrupt", f"its compressed pixels are damaged ({error})"
    if not inflater.eof:
        return "corrupt", "its compressed pixels end too early"
    return _TOO_FEW if left else None


EXTRA_DATA = ("png_extra_data", "other data follows its compressed pixels")
_TOO_FEW = ("truncated", "it has fewer compressed pixels than its size requires")
_INFLATE_PIECE = 1 << 20


def _pixel_bytes(data: bytes) -> int:
    """Return the inflated size of the pixels in bytes. Each row is preceded by its filter number."""
    width, height, depth, colour, _, _, interlace = struct.unpack_from(">IIBBBBB", data, len(PNG_MAGIC) + 8)
    bits = depth * _CHANNELS.get(colour, 0)
    passes = _PASSES if interlace == _INTERLACED else ((0, 0, 1, 1),)
    sizes = (
        (-(-(width - left) // across), -(-(height - top) // down))
        for left, top, across, down in passes
        if width > left and height > top
    )
    return sum(rows * (1 + -(-columns * bits // 8)) for columns, rows in sizes)


def png_without(data: bytes, container: ContainerCheck, metadata: bool) -> tuple[bytes, tuple[str, ...]]:
    """Return the PNG without chunks that break decoders and without data after its end, and the names of the changes.

    With `metadata` its metadata is dropped too. The rest is unchanged byte for byte, and so are the pixels; without
    changes `data` itself is returned.
    """
    bad = bad_extras(data) if container.bad_extra else []
    extras = _metadata(data, set(bad)) if metadata else []
    trailer = [(container.end, len(data))] if 0 < container.end < len(data) else []
    dropped = (bad, "chunk_dropped"), (trailer, "trailer_dropped"), (extras, "metadata_stripped")
    names = tuple(name for ranges, name in dropped if ranges)
    return (without(data, sorted(bad + extras) + trailer) if names else data), names


def _metadata(data: bytes, exclude: set[tuple[int, int]]) -> list[tuple[int, int]]:
    ranges = (
        (at, at + 12 + size)
        for at, kind, size in chunks(data)
        if not is_needed(kind) and kind not in _MEANING | _MEANING_OF_FRAMES and size >= 0
    )
    return [each for each in ranges if each not in exclude]
