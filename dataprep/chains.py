"""Walks the marker chain of a JPEG and the chunk chain of a PNG, without decoding a pixel.

Pillow and the trainer's decoder disagree about files whose chain is broken (measured: one raises where the other
crashes, spins or invents pixels), so a broken chain decides before either of them is asked.
"""

import re
import struct
import zlib
from dataclasses import dataclass

_PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
# In entropy-coded data a 0xFF is followed by 00 (stuffing), by D0..D7 (restart) or by FF (fill).
_NEXT_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_STANDALONE = frozenset([0x01, *range(0xD0, 0xD8)])
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# Baseline, extended and progressive with Huffman codes: what every decoder reads.
_COMMON_FRAMES = frozenset([0xC0, 0xC1, 0xC2])


@dataclass(frozen=True, slots=True)
class Chain:
    """`problem` is None for a whole chain. `plain` says that every decoder reads this kind of file alike."""

    problem: str | None
    plain: bool = False


def jpeg_chain(data: bytes) -> Chain:
    """Walk from SOI to EOI; what follows EOI is not looked at (cameras put previews and film there)."""
    at, plain, framed, scanned = 2, False, False, False
    while True:
        marker, at = _next_marker(data, at)
        if marker is None:
            return Chain("it ends without an end-of-image marker")
        if marker == 0xD9:
            return Chain(None if scanned else "it has no image data", plain)
        if marker in _STANDALONE:
            continue
        if at + 2 > len(data):
            return Chain("it ends inside a segment")
        size = int.from_bytes(data[at : at + 2], "big")
        if size < 2 or at + size > len(data):
            return Chain("it ends inside a segment")
        if marker in _FRAMES:
            plain, framed = marker in _COMMON_FRAMES and data[at + 2] == 8, True
        at += size
        if marker == 0xDA:
            if not framed:
                return Chain("it has a scan before its frame header")
            scanned = True
            found = _NEXT_MARKER.search(data, at)
            at = found.start() if found else len(data)


def _next_marker(data: bytes, at: int) -> tuple[int | None, int]:
    """The marker at or after `at`, skipping fill and garbage as libjpeg does, and where its segment starts."""
    found = re.compile(rb"\xff+[^\x00\xff]").search(data, at)
    return (data[found.end() - 1], found.end()) if found else (None, len(data))


def png_chain(data: bytes) -> Chain:
    """Walk from IHDR to IEND with every checksum; `plain` is an 8-bit grey, RGB without transparency or animation."""
    seen: set[bytes] = set()
    at, plain = len(_PNG_MAGIC), False
    while True:
        if at + 12 > len(data):
            return Chain("it ends without an IEND chunk" if seen else "it ends inside its header")
        size, kind = struct.unpack_from(">I4s", data, at)
        end = at + 8 + size
        if end + 4 > len(data):
            return Chain(f"it ends inside a {kind.decode('latin-1')!r} chunk")
        if zlib.crc32(data[at + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            if not kind[0] & 0x20:
                return Chain(f"the checksum of a {kind.decode('latin-1')!r} chunk is wrong")
            seen.add(b"bad ancillary chunk")
        if kind == b"IHDR" and size >= 13:
            plain = data[at + 16] == 8 and data[at + 17] in (0, 2)
        seen.add(kind)
        at = end + 4
        if kind == b"IEND":
            odd = seen & {b"tRNS", b"acTL", b"bad ancillary chunk"}
            return Chain(None if b"IDAT" in seen else "it has no image data", plain and not odd)
