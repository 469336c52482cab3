"""Read archives: files at any offset, compressed streams from start to end."""

import os
import stat
from collections.abc import Iterator
from typing import Protocol

from dataprep.errors import DataprepError, TryLater
from dataprep.items import decode_name, size_and_time

_BUFFER = 8192


class Reader(Protocol):
    """Bytes of an archive. `size` is their number, None as long as it is unknown."""

    size: int | None

    def read_at(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes; fewer only at the end."""


class FileReader:
    """A file that is read at any offset. Small reads share a buffer."""

    def __init__(self, path: bytes) -> None:
        self.path = path
        # Without O_NONBLOCK, opening a FIFO would block.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        status = os.fstat(self._descriptor)
        self.is_regular = stat.S_ISREG(status.st_mode)
        self.identity = size_and_time(status)
        self.size: int | None = status.st_size
        self._start, self._buffer = 0, b""

    def __enter__(self) -> "FileReader":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def read_at(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes; fewer only at the end."""
        at = offset - self._start
        if at >= 0 and at + count <= len(self._buffer):
            return self._buffer[at : at + count]
        data = b""
        wanted = max(count, _BUFFER)
        try:
            while len(data) < count and (piece := os.pread(self._descriptor, wanted - len(data), offset + len(data))):
                data += piece
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path) from None
        self._start, self._buffer = offset, data
        return data[:count]

    def check_unchanged(self) -> None:
        """Raise TryLater if the file has changed since it was opened."""
        if size_and_time(os.fstat(self._descriptor)) != self.identity:
            raise TryLater(
                f"{decode_name(self.path)} has changed while it was read; once it is complete, run the same command "
                "again"
            )


class StreamReader:
    """The pieces of a stream, read forwards only. `size` is known at the end."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._start, self._buffer = 0, b""
        self.size: int | None = None

    def read_at(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes; fewer only at the end. `offset` must not lie before an earlier one."""
        if offset < self._start:
            raise DataprepError(f"a compressed archive was read backwards, from byte {self._start} to {offset}")
        while self._start + len(self._buffer) < offset + count and self.size is None:
            self._advance(offset)
        self._forget(offset)
        return self._buffer[:count] if self._start == offset else b""

    def _advance(self, offset: int) -> None:
        piece = next(self._pieces, None)
        if piece is None:
            self.size = self._start + len(self._buffer)
            return
        self._forget(offset)
        self._buffer += piece

    def _forget(self, offset: int) -> None:
        drop = min(offset - self._start, len(self._buffer))
        if drop > 0:
            self._buffer = self._buffer[drop:]
            self._start += drop

    def exhaust(self) -> int:
        """Read to the end and return the size."""
        while self.size is None:
            self._advance(self._start + len(self._buffer))
        return self.size
