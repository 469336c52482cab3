"""Read the chunks of a PNG, and remove those that pixels do not need and on which a decoder may fail.

Pillow rejects the whole image for one damaged or very large text chunk; libpng skips the chunk with a warning. Both
programs drop such chunks before Pillow opens the file, so that neither accepts an image that the other rejects.
"""

import struct
import zlib
from collections.abc import Iterator

PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
_ANCILLARY = 0x20  # bit of the first letter of a kind: pixels do not need the chunk
_TRANSPARENCY = b"tRNS"  # ancillary by its letter, but visible
_TEXTS = (b"tEXt", b"zTXt", b"iTXt", b"iCCP")  # a profile is compressed like a text
_FRAMES = (b"fcTL", b"fdAT")  # animation frames: Pillow fails on them without an animation header
# Limits of the decoders: Pillow limits one inflated text or profile and all texts (MAX_TEXT_CHUNK, MAX_TEXT_MEMORY:
# 64 MiB), libpng one chunk and the number of texts (PNG_USER_CHUNK_MALLOC_MAX, PNG_USER_CHUNK_CACHE_MAX: 1,000).
INFLATED_BYTES = 1 << 20
TEXT_BYTES = 32 << 20
CHUNK_BYTES = 8_000_000
TEXT_CHUNKS = 500
_KEYWORD = range(1, 80)
# Valid lengths by the PNG specification, for kinds whose wrong lengths a decoder reports.
_LENGTHS = {
    b"gAMA": (4, 4),
    b"cHRM": (32, 32),
    b"sRGB": (1, 1),
    b"pHYs": (9, 9),
    b"tIME": (7, 7),
    b"bKGD": (1, 6),
    b"sBIT": (1, 4),
    b"eXIf": (4, CHUNK_BYTES),
    b"acTL": (8, 8),
    b"fcTL": (26, 26),
    b"fdAT": (4, 1 << 31),
}


def chunks(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Yield offset, kind and size of each chunk up to IEND; size -1 for an incomplete chunk."""
    at = len(PNG_MAGIC)
    while at + 12 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        if at + 12 + size > len(data):
            yield at, kind, -1
            return
        yield at, kind, size
        if kind == b"IEND":
            return
        at += 12 + size


def checksum_holds(data: bytes, at: int, size: int) -> bool:
    """Return True if the checksum of the chunk at offset `at` is right; `size` is that of its data."""
    return zlib.crc32(data[at + 4 : at + 8 + size]) == int.from_bytes(data[at + 8 + size : at + 12 + size], "big")


def is_needed(kind: bytes) -> bool:
    """Return True if pixels depend on chunks of this kind."""
    return not kind[0] & _ANCILLARY or kind == _TRANSPARENCY


def bad_extras(data: bytes) -> list[tuple[int, int]]:
    """Return (start, end) of each chunk that pixels do not need if it is damaged or too large for decoders."""
    bad, text_bytes, texts = [], 0, 0
    animated = any(kind == b"acTL" and size == 8 for _, kind, size in chunks(data))
    for at, kind, size in chunks(data):
        if is_needed(kind) or size < 0:
            continue
        sound = checksum_holds(data, at, size) and _fits(kind, size) and (animated or kind not in _FRAMES)
        if sound and kind in _TEXTS:
            texts += 1
            # Above the limits nothing is inflated: a small file may contain a thousand zip bombs.
            within = texts <= TEXT_CHUNKS and text_bytes <= TEXT_BYTES
            inflated = _text_size(kind, data[at + 8 : at + 8 + size]) if within else None
            text_bytes += INFLATED_BYTES if inflated is None else inflated
            sound = inflated is not None and text_bytes <= TEXT_BYTES
        if not sound:
            bad.append((at, at + 12 + size))
    return bad


def without(data: bytes, ranges: list[tuple[int, int]]) -> bytes:
    """Return the data without these (start, end) ranges, which are in order."""
    starts = [0, *(end for _, end in ranges)]
    ends = [*(start for start, _ in ranges), len(data)]
    return b"".join(data[start:end] for start, end in zip(starts, ends, strict=True))


def without_bad_extras(data: bytes) -> bytes:
    """Return the PNG without the chunks of bad_extras, for which Pillow rejects the whole file."""
    return without(data, bad_extras(data))


def _fits(kind: bytes, size: int) -> bool:
    least, most = _LENGTHS.get(kind, (0, CHUNK_BYTES))
    return least <= size <= most


def _text_size(kind: bytes, body: bytes) -> int | None:
    """Return the inflated size of a text or profile in bytes; None if it is malformed or too large."""
    keyword, end, rest = body.partition(b"\0")
    if not end or len(keyword) not in _KEYWORD:
        return None
    if kind == b"tEXt":
        return len(rest)
    if kind != b"iTXt":
        return _inflated(rest[1:]) if rest[:1] == b"\0" else None
    packed, method, (_, _, rest) = rest[:1], rest[1:2], rest[2:].partition(b"\0")
    _, end, text = rest.partition(b"\0")
    if not end:
        return None
    if packed == b"\1":
        return _inflated(text) if method == b"\0" else None
    return len(text)


def _inflated(packed: bytes) -> int | None:
    inflater = zlib.decompressobj()
    try:
        size = len(inflater.decompress(packed, INFLATED_BYTES))
    except zlib.error:
        return None
    return size if inflater.eof else None
