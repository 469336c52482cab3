"""Opens files that must be regular ones. A FIFO in their place would block a plain open for ever."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from schemas.errors import ContractError


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises ContractError for any other kind of file, OSError as open does."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # a socket cannot be opened, and opening a device may do something
        raise ContractError(_said(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ContractError(_said(path))
    return open(descriptor, "rb")


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Read a whole regular file. Raises ContractError for a larger one and any other kind, OSError as open does."""
    with open_regular(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ContractError(f"{path} is larger than {max_bytes} bytes, so it is not what should lie there")
    return data


def _said(path: Path) -> str:
    return f"{path} is not a regular file; remove what lies there, or restore the file from a copy"
