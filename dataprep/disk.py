"""What a disk or share does to a command: one sentence and an exit code, whichever call and library met it."""

import errno
import os
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from dataprep.errors import DataprepError, TryLater
from schemas.errors import PASSING_ERRORS
from schemas.process.memory import is_shortage
from schemas.storage.sqlite_errors import disk_error

# Whatever file they are met at, they say nothing of its disk: a signal came, or too many files are open.
OWN_ERRORS = frozenset({errno.EINTR, errno.EMFILE, errno.ENFILE})
TRIES = 5  # so often is done again what a signal has interrupted
_T = TypeVar("_T")


@contextmanager
def disk_errors(out: Path) -> Iterator[None]:
    """Turn what a disk does to a job into a sentence; what waiting cures into TryLater. `out` is where it works."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        said = explained(error, out)
        if said is None:
            raise
        raise said from None


def uninterrupted(out: Path, work: Callable[[], _T]) -> _T:
    """What `work` returns, begun again when a signal has interrupted a call in it; it must be made for that.

    Python itself tries most calls again, but not those that ask about a file or change names; network file systems and
    FUSE end these with EINTR too.
    """
    for _ in range(TRIES):
        try:
            return work()
        except InterruptedError as error:
            where = error.filename or out
    raise TryLater(f"signals interrupt what is done at {where} again and again; the same command goes on")


@contextmanager
def sqlite_scratch(folder: Path) -> Iterator[None]:
    """Have SQLite keep its temporary files in `folder`, where there is room for the set, unless SQLITE_TMPDIR names
    another; a small /tmp would end the job.
    """
    if os.environ.get("SQLITE_TMPDIR"):
        yield
        return
    _keep_temporary(str(folder.absolute()))
    try:
        yield
    finally:
        _keep_temporary("")


def _keep_temporary(folder: str) -> None:
    # For all connections of this process: SQLite itself reads SQLITE_TMPDIR only once, when it is loaded.
    with closing(sqlite3.connect(":memory:")) as any_database, suppress(sqlite3.Error):
        any_database.execute("PRAGMA temp_store_directory = '{}'".format(folder.replace("'", "''")))


def explained(error: Exception, place: object) -> DataprepError | None:
    """What happened, at the file that the error names or else at `place`, and what to do; None where it was no disk.

    A signal (EINTR) is none, see `uninterrupted`; nor are a shortage of memory and a closed pipe.
    """
    if isinstance(error, sqlite3.Error):
        found = disk_error(error)
        return None if found is None else explained(found, place)
    if not isinstance(error, OSError) or error.errno in (None, errno.EINTR, errno.EPIPE) or is_shortage(error):
        return None
    where = error.filename if error.filename is not None else place
    return _explained(error, os.fsdecode(where) if isinstance(where, bytes) else str(where))


def _explained(error: OSError, where: str) -> DataprepError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        what = "the disk is full" if error.errno == errno.ENOSPC else "the disk quota is used up"
        return TryLater(f"{what} at {where}; make room, then the same command goes on")
    if error.errno == errno.EFBIG:
        return DataprepError(
            f"a file at {where} may not grow any larger (file-size limit); raise `ulimit -f`, or use a smaller "
            "--shard-size with --restart"
        )
    if error.errno == errno.EROFS:
        return DataprepError(f"cannot write at {where}: {error.strerror}; mend that and the same command goes on")
    if error.errno in (errno.EACCES, errno.EPERM):
        return DataprepError(f"may not use {where}: {error.strerror}; mend that and the same command goes on")
    if error.errno == errno.EMFILE:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return TryLater(
            f"this process may not open more files than `ulimit -n` says ({limit}), at {where}; raise it, or use fewer "
            "--workers; the same command goes on"
        )
    if error.errno == errno.ENFILE:
        return TryLater(f"this machine has no room for more open files, at {where}; the same command goes on later")
    if error.errno in PASSING_ERRORS:
        return TryLater(f"the disk fails at {where}: {error.strerror}; once it is well, the same command goes on")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return DataprepError(
            f"{where} is gone ({error.strerror}): something else moved or removed it; the same command goes on"
        )
    return DataprepError(f"cannot go on at {where}: {error.strerror}; mend that and the same command goes on")
