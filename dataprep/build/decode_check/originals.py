"""JPEGs as they were before they were re-encoded, kept beside a built shard until it is proved.

Pillow decodes damaged JPEGs without a word, and a resized or rotated picture does not show it. So the decode check
reads these too.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

ORIGINALS = "originals.bin"  # in an attempt folder
_HEAD = struct.Struct("<QQ")  # row number, bytes


class OriginalsWriter:
    """Appends to the file of an attempt folder, which is made when there is something to write."""

    def __init__(self, attempt: Path) -> None:
        self._path = attempt / ORIGINALS
        self._file: BinaryIO | None = None

    def add(self, row: int, data: bytes) -> None:
        """Keep the JPEG that row `row` was made from; rows come in order."""
        if self._file is None:
            self._file = self._path.open("wb")
        self._file.write(_HEAD.pack(row, len(data)) + data)

    def close(self) -> None:
        """Write out what is buffered."""
        if self._file is not None:
            self._file.close()


def read_originals(path: Path) -> Iterator[tuple[int, bytes]]:
    """Row number and JPEG of each entry; none where there is no file."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        while head := file.read(_HEAD.size):
            row, size = _HEAD.unpack(head)
            yield row, file.read(size)
