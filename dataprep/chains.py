"""Walks the marker chain of a JPEG and the chunk chain of a PNG or WebP, without decoding a pixel.

Pillow and the trainer's decoder disagree about files whose chain is broken (measured: one raises where the other
crashes, spins or invents pixels), so a broken chain decides before either of them is asked.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

JPEG_MAGIC = b"\xff\xd8\xff"
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
_MARKER = re.compile(rb"\xff+[^\x00\xff]")
_NO_MARKER = (b"", b"\x00", b"\xff")  # behind a 0xFF
# In entropy-coded data a 0xFF is followed by 00 (stuffing), by D0..D7 (restart) or by FF (fill).
_NEXT_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_STANDALONE = frozenset([0x01, *range(0xD0, 0xD8)])
_ADOBE = 0xEE
_SHORTEST_FRAME = 8 + 3  # bytes that a frame header of one component announces
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC} | {0xF7}
_LOSSLESS = frozenset([0xC3, 0xC7, 0xCB, 0xCF])


@dataclass(frozen=True, slots=True)
class Chain:
    """What a chain says. `problem` is None for a whole one; `checksum` tells a wrong checksum from missing bytes.

    `plain` says that every decoder reads this kind of file alike; `kind` names one that few decoders read; `deep`
    says that it holds more than eight bits a channel; `bad_extra` that a PNG chunk which pixels do not need is damaged.
    `size` is width and height in pixels where the header alone tells all there is to know: 8-bit grey or RGB with no
    EXIF, colour profile or second picture; else None. `scan` is where the scan of a JPEG begins that is
    one scan and nothing behind it, as cameras write it; else 0.
    """

    problem: str | None = None
    checksum: bool = False
    plain: bool = False
    kind: str | None = None
    deep: bool = False
    bad_extra: bool = False
    size: tuple[int, int] | None = None
    scan: int = 0


def jpeg_chain(data: bytes, headers_only: bool = False) -> Chain:
    """Walk from SOI to EOI, or to the first scan; what follows EOI is not looked at (cameras put previews there)."""
    at, frame, bare, scan = 2, -1, True, 0
    while True:
        marker, at = _next_marker(data, at)
        if marker is None:
            return Chain("it ends without an end-of-image marker")
        if marker == 0xD9:
            return Chain("it has no image data") if frame < 0 else _jpeg(data, frame, bare, max(scan, 0))
        if marker in _STANDALONE:
            continue
        size = int.from_bytes(data[at : at + 2], "big")
        if size < 2 or at + size > len(data):
            return Chain("it ends inside a segment")
        if marker in _FRAMES:
            if size < _SHORTEST_FRAME:
                return Chain("its frame header is cut", checksum=True)
            frame = at - 1
        scan = -1 if scan else 0  # something stands behind a scan
        bare &= not 0xE1 <= marker <= 0xEF or marker == _ADOBE
        at += size
        if marker == 0xDA:
            if frame < 0:
                return Chain("it has a scan before its frame header")
            if headers_only:
                return _jpeg(data, frame, bare, at)
            scan = at if scan == 0 else -1
            found = _NEXT_MARKER.search(data, at)
            at = found.start() if found else len(data)


def _jpeg(data: bytes, frame: int, bare: bool, scan: int) -> Chain:
    """The chain of a whole JPEG whose frame header's marker byte is at `frame`; `bare` of EXIF and the like."""
    marker, bits = data[frame], data[frame + 3]
    kinds = (
        (marker == 0xF7, "JPEG-LS"),
        (marker in _LOSSLESS, "lossless JPEG"),
        (marker > 0xC8, "arithmetic-coded JPEG"),
    )
    kind = next((name for holds, name in kinds if holds), None) or (f"{bits}-bit JPEG" if bits != 8 else None)
    # Baseline, extended and progressive with Huffman codes: what every decoder reads.
    plain = kind is None and marker <= 0xC2
    height, width = struct.unpack_from(">HH", data, frame + 4)
    simple = bare and plain and height and data[frame + 8] in (1, 3)
    return Chain(plain=plain, kind=kind, deep=bits > 8, size=(width, height) if simple else None, scan=scan)


def _next_marker(data: bytes, at: int) -> tuple[int | None, int]:
    """The marker at or after `at`, skipping fill and garbage as libjpeg does, and where its segment starts."""
    if data[at : at + 1] == b"\xff" and data[at + 1 : at + 2] not in _NO_MARKER:
        return data[at + 1], at + 2  # it stands where it should
    found = _MARKER.search(data, at)
    return (data[found.end() - 1], found.end()) if found else (None, len(data))


def png_chain(data: bytes, headers_only: bool = False) -> Chain:
    """Walk from IHDR to IEND with every checksum; plain is 8-bit grey or RGB without transparency or animation."""
    plain = deep = bad_extra = False
    seen: set[bytes] = set()
    for at, kind, size in _png_chunks(data):
        if size < 0:
            return Chain(f"it ends inside a {kind.decode('latin-1')!r} chunk")
        if headers_only and kind == b"IDAT":
            break
        if not _checksum_holds(data, at, size):
            if not kind[0] & _ANCILLARY:
                return Chain(f"the checksum of a {kind.decode('latin-1')!r} chunk is wrong", checksum=True)
            bad_extra = True
        if kind == b"IHDR" and size >= 13:
            plain, deep = data[at + 16] == 8 and data[at + 17] in (0, 2), data[at + 16] == 16
        seen.add(kind)
    if not headers_only and not {b"IHDR", b"IDAT", b"IEND"} <= seen:
        return Chain("it ends without an IEND chunk" if b"IDAT" in seen else "it has no image data")
    plain = plain and not bad_extra and not seen & {b"tRNS", b"acTL"}
    return Chain(plain=plain, deep=deep, bad_extra=bad_extra)


_ANCILLARY = 0x20


def _png_chunks(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """(where it starts, kind, size) of each chunk up to IEND; size -1 for one that the data ends in."""
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


def _checksum_holds(data: bytes, at: int, size: int) -> bool:
    return zlib.crc32(data[at + 4 : at + 8 + size]) == int.from_bytes(data[at + 8 + size : at + 12 + size], "big")


def png_stream_problem(data: bytes) -> str | None:
    """What is wrong with the compressed pixels of a whole PNG: Pillow makes a picture of some broken streams.

    Memory: one piece at a time, whatever the stream grows to.
    """
    inflater = zlib.decompressobj()
    try:
        for at, kind, size in _png_chunks(data):
            piece = data[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
            while piece and not inflater.eof:
                inflater.decompress(piece, _INFLATE_PIECE)
                piece = inflater.unconsumed_tail
    except zlib.error as error:
        return f"its compressed pixels are damaged ({error})"
    return None if inflater.eof else "its compressed pixels end too early"


_INFLATE_PIECE = 1 << 20


def png_without_bad_extras(data: bytes) -> bytes:
    """The PNG without damaged chunks that its pixels do not need: Pillow refuses the whole file over one."""
    kept = [
        data[at : at + 12 + size]
        for at, kind, size in _png_chunks(data)
        if not kind[0] & _ANCILLARY or _checksum_holds(data, at, size)
    ]
    return PNG_MAGIC + b"".join(kept)


def webp_chain(data: bytes, headers_only: bool = False) -> Chain:
    """Whether all of the file is there that its header announces."""
    announced = int.from_bytes(data[4:8], "little") + 8
    return Chain(f"it has {len(data)} of {announced} bytes" if announced > len(data) else None)


def jpeg_pixels(data: bytes) -> bytes:
    """The parts of a whole JPEG that decide its pixels: all but application segments, comments and what follows EOI.

    Adobe's segment stays, since it says how colours are coded.
    """
    parts: list[bytes] = []
    at = 2
    while True:
        marker, at = _next_marker(data, at)
        if marker is None or marker == 0xD9:
            return b"".join(parts)
        if marker in _STANDALONE:
            continue
        size = int.from_bytes(data[at : at + 2], "big")
        end = at + size
        if marker == 0xDA:
            found = _NEXT_MARKER.search(data, end)
            end = found.start() if found else len(data)
        if marker == _ADOBE or not (0xE0 <= marker <= 0xEF or marker == 0xFE):
            parts.append(data[at - 1 : end])
        at = end
