"""Walks the marker chain of a JPEG, without decoding a pixel."""

import re
import struct

from dataprep.images.chain import Chain

JPEG_MAGIC = b"\xff\xd8\xff"
_MARKER = re.compile(rb"\xff+[^\x00\xff]")
_NO_MARKER = (b"", b"\x00", b"\xff")  # behind a 0xFF
# In entropy-coded data a 0xFF is followed by 00 (stuffing), by D0..D7 (restart) or by FF (fill).
_NEXT_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_STANDALONE = frozenset([0x01, *range(0xD0, 0xD8)])
_ADOBE = 0xEE
_SHORTEST_FRAME = 8 + 3  # bytes that a frame header of one component announces
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC} | {0xF7}
_LOSSLESS = frozenset([0xC3, 0xC7, 0xCB, 0xCF])


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
