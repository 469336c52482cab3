"""Sync, list and write files atomically, also on network and container mounts that lack some operations."""

import contextlib
import errno
import fnmatch
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

# Errors of CIFS, some FUSE and some network file systems, which cannot sync a folder.
_NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF})
_TRIES = 20  # attempts at a call that signals interrupt
Call = TypeVar("Call", bound=Callable[..., Any])


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Context manager that adds `path` to an OSError without a file name, such as those of write, fsync and close."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def until_uninterrupted(call: Call) -> Call:
    """Decorator that calls a repeatable function again if a signal interrupts it.

    Python does that itself for most operations on a file, but not for those on a folder.
    """

    @functools.wraps(call)
    def repeated(*arguments: Any, **options: Any) -> Any:
        for _ in range(_TRIES):
            with contextlib.suppress(InterruptedError):
                return call(*arguments, **options)
        return call(*arguments, **options)

    return repeated  # type: ignore[return-value]


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk. Raises OSError unless folders cannot be synced here."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def give_group(path: Path, group: int) -> None:
    """Change the group of a file if possible.

    Errors are ignored: the user may lack permission, and a container may not map the group (EINVAL).
    """
    if os.stat(path).st_gid != group:
        with contextlib.suppress(OSError):
            os.chown(path, -1, group)


def listing(folder: Path, pattern: str) -> list[Path]:
    """Return the entries of a folder whose names match, sorted. Raises OSError on failure, unlike Path.glob."""
    return [folder / name for name in sorted(os.listdir(folder)) if fnmatch.fnmatchcase(name, pattern)]


def files_below(folder: Path) -> list[Path]:
    """Return all files below a folder, at any depth. Raises OSError."""

    def fail(error: OSError) -> None:
        raise error

    return [Path(parent, name) for parent, _, names in os.walk(folder, onerror=fail) for name in names]


@until_uninterrupted
def write_whole(path: Path, data: str | bytes) -> None:
    """Write text (as UTF-8) or bytes to a file atomically, and sync the file; a device is written directly.

    Surrogates in text, from file names that are not UTF-8, are written as their bytes.
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
