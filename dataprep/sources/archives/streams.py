"""Decompress gzip, bzip2, xz and Zstandard streams, told apart by their first bytes, and detect damage."""

import bz2
import importlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple, Protocol

from dataprep.errors import DataprepError, DataRejected

# Bytes read at a time. It bounds the memory of highly compressed data.
_PIECE = 16 << 10


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


class Compression(NamedTuple):
    """A compression: its name, first bytes, a function that makes a decompressor, and its errors."""

    name: str
    magic: bytes
    start: Callable[[], Callable[[], _Decompressor]]


def _zstd() -> Callable[[], _Decompressor]:
    """Return the Zstandard decompressor of Python, or that of the package. Raises DataprepError if there is none."""
    try:
        own: Callable[[], _Decompressor] = importlib.import_module("compression.zstd").ZstdDecompressor
        return own
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        raise DataprepError("reading .tar.zst needs the package zstandard: pip install zstandard") from None
    # Up to `zstd --ultra --long=31`.
    return lambda: zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


COMPRESSIONS = (
    Compression("gzip", b"\x1f\x8b", lambda: lambda: zlib.decompressobj(31)),
    Compression("bzip2", b"BZh", lambda: bz2.BZ2Decompressor),
    Compression("xz", b"\xfd7zXZ\0", lambda: lzma.LZMADecompressor),
    Compression("Zstandard", b"\x28\xb5\x2f\xfd", _zstd),
)
_SKIPPABLE = b"\x2a\x4d\x18"  # bytes 1 to 3 of a Zstandard frame without content


def compression_of(head: bytes) -> Compression | None:
    """Return the compression of a file by its first bytes; None if it is not compressed."""
    if head[1:4] == _SKIPPABLE and head[0] >> 4 == 5:
        return COMPRESSIONS[-1]
    return next((one for one in COMPRESSIONS if head.startswith(one.magic)), None)


def decompressed(file: BinaryIO, compression: Compression, name: str) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file in one sequential read. `name` is used in messages.

    Several streams one after another are read as one. Raises DataRejected if the data is damaged or cut.
    """
    start = compression.start()
    stream = start()
    data = b""
    while data := data or file.read(_PIECE):
        if stream.eof:
            data = data.lstrip(b"\0")  # padding
            if not data:
                continue
            stream = start()
        try:
            piece = stream.decompress(data)
        except MemoryError:
            raise
        except Exception as error:  # each library has its own
            raise DataRejected(_damaged(name, compression, file.tell(), f" ({error})")) from None
        data = stream.unused_data if stream.eof else b""
        if piece:
            yield piece
    if not stream.eof:
        raise DataRejected(_damaged(name, compression, file.tell(), ": it ends too early"))


def _damaged(name: str, compression: Compression, at: int, why: str) -> str:
    return (
        f"the {compression.name} data of {name} is damaged near byte {at}{why}, so the images behind it are unknown; "
        "copy or download the archive again"
    )
