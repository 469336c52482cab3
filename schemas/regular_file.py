"""Opens files that must be regular ones. A FIFO in their place would block a plain open for ever."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from schemas.errors import ContractError


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises ContractError for any other kind of file, OSError as open does."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ContractError(f"{path} is not a regular file; remove what lies there, or restore the file from a copy")
    return open(descriptor, "rb")
