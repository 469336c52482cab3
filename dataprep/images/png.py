"""Walks the chunk chain of a PNG and inflates its pixels, without decoding them."""

import struct
import zlib
from collections.abc import Iterator

from dataprep.images.chain import Chain

PNG_MAGIC = b"\x89PNG\r\n\x1a\n"


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
