"""What is asked of a file system beside reading and writing: network and container mounts refuse some of it."""

import contextlib
import errno
import fnmatch
import os
from pathlib import Path

from trainer.errors import naming, until_uninterrupted

# CIFS, some FUSE and some network file systems cannot sync a folder, and say so in one of these ways.
_NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF})


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk; a file system that cannot sync folders is excused.

    Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def give_group(path: Path, group: int) -> None:
    """Give a file to a group where that is possible. A user may not give it to any group, and in a container the group
    may not be mapped (EINVAL); the file is as good without.
    """
    if os.stat(path).st_gid != group:
        with contextlib.suppress(OSError):
            os.chown(path, -1, group)


def listing(folder: Path, pattern: str) -> list[Path]:
    """The entries of a folder whose names match, by name. Raises OSError, where Path.glob takes a folder that may not
    be read for an empty one.
    """
    return [folder / name for name in sorted(os.listdir(folder)) if fnmatch.fnmatchcase(name, pattern)]


def files_below(folder: Path) -> list[Path]:
    """The files in a folder and in those below it. Raises OSError, as `listing` does."""

    def fail(error: OSError) -> None:
        raise error

    return [Path(place, name) for place, _, names in os.walk(folder, onerror=fail) for name in names]


@until_uninterrupted
def write_whole(path: Path, data: str | bytes) -> None:
    """Write a file, text as UTF-8, so that it is on the disk as a whole, or as it was; devices are written as they are.

    Names of files that are not UTF-8 keep their bytes.
    """
    data = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    path = path.resolve()
    part = path.with_name(f".{path.name}.part")
    with naming(path):
        try:
            part.write_bytes(data)
            sync(part)
            os.replace(part, path)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink()
            raise
        sync(path.parent)
