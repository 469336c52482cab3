"""Read an image file without blocking: FIFOs, sockets and devices are rejected."""

import os
import stat
from pathlib import Path

from trainer.feed.picture import Unreadable

MAX_BYTES = 256 << 20  # limit per image file, equal to the default of `dataprep shard`
KINDS = (
    (stat.S_ISFIFO, "FIFO"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
    (stat.S_ISDIR, "folder"),
)


def read_file(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the bytes of the regular file `path`.

    Raises Unreadable if the file is not regular or larger than `max_bytes`, and OSError if the file cannot be read.
    """
    _check_kind(path.stat())  # checked before open(), because open() rewinds a tape and fails on a socket
    # Without O_NONBLOCK, open() would block forever if a FIFO has just replaced the file.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        _check_kind(status)
        if status.st_size > max_bytes:
            raise Unreadable(f"the file has {status.st_size} bytes, the limit is {max_bytes}")
        data = file.read(max_bytes + 1)  # bounded, because some files in /proc report 0 bytes and never end
    if len(data) > max_bytes:
        raise Unreadable(f"the file has more bytes than the limit of {max_bytes}")
    return data


def _check_kind(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = next((kind for is_kind, kind in KINDS if is_kind(status.st_mode)), "special file")
        raise Unreadable(f"not a regular file: a {kind}")
