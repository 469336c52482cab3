"""Original bytes of re-encoded JPEGs, stored beside a built shard until its decode check.

Pillow decodes damaged JPEGs without a warning, and the re-encoded image hides the damage. So the decode check reads
the originals too.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

ORIGINALS = "originals.bin"  # in an attempt folder
_HEAD = struct.Struct("<QQ")  # row number, bytes


class OriginalsWriter:
    """Appends to ORIGINALS in an attempt folder. The file is created at the first entry."""

    def __init__(self, attempt: Path) -> None:
        self._path = attempt / ORIGINALS
        self._file: BinaryIO | None = None

    def add(self, row: int, data: bytes) -> None:
        """Add the original JPEG of `row`; rows must be in order."""
        if self._file is None:
            self._file = self._path.open("wb")
        self._file.write(_HEAD.pack(row, len(data)) + data)

    def close(self) -> None:
        """Flush and close the file."""
        if self._file is not None:
            self._file.close()


def read_originals(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the row number and JPEG of each entry. Yield nothing if there is no file."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        while head := file.read(_HEAD.size):
            row, size = _HEAD.unpack(head)
            yield row, file.read(size)
