"""Open regular files only. Opening a FIFO would block forever."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from schemas.errors import ContractError


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises ContractError if `path` is not a regular file. Raises OSError if it cannot be opened.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening a device may have effects
        raise ContractError(_not_regular(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ContractError(_not_regular(path))
    return open(descriptor, "rb")


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Read a regular file.

    Raises ContractError if the file is larger than `max_bytes` or not a regular file. Raises OSError if it cannot be
    read.
    """
    with open_regular(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ContractError(f"{path} is larger than {max_bytes} bytes, so it is not the expected file")
    return data


def _not_regular(path: Path) -> str:
    return f"{path} is not a regular file; remove it, or restore the file from a copy"
