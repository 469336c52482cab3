"""Reads an image file that a user has named, and never waits for one: a FIFO is refused, and so is a device."""

import os
import stat
from pathlib import Path

from trainer.feed.picture import Unreadable

MAX_BYTES = 256 << 20  # of one image file, as `dataprep shard` has it by default: a larger one is no photo
KINDS = (
    (stat.S_ISFIFO, "FIFO"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
    (stat.S_ISDIR, "folder"),
)


def read_file(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file of at most `max_bytes`.

    Raises Unreadable for a thing of another kind and a larger file, OSError for one that is gone or may not be read.
    """
    _check_kind(path.stat())  # before it is opened: to open a tape winds it, and a socket cannot be opened
    # Without O_NONBLOCK a FIFO that has taken the file's place by now would block for ever.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        _check_kind(found)
        if found.st_size > max_bytes:
            raise Unreadable(f"it has {found.st_size} bytes, the limit is {max_bytes}")
        data = file.read(max_bytes + 1)  # bounded, too, where a file says 0 bytes and has no end, as some in /proc
    if len(data) > max_bytes:
        raise Unreadable(f"it has more than {max_bytes} bytes, the limit")
    return data


def _check_kind(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = next((kind for is_kind, kind in KINDS if is_kind(found.st_mode)), "thing of another kind")
        raise Unreadable(f"not a regular file: a {kind}")
