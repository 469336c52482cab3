"""Turn disk errors into one sentence and an exit code, whichever call or library raised them."""

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
from schemas.storage.sqlite_errors import disk_error, is_damaged

# Errors of this process, not of the disk: a signal, or too many open files.
OWN_ERRORS = frozenset({errno.EINTR, errno.EMFILE, errno.ENFILE})
TRIES = 5  # attempts when signals interrupt a call
AGAIN = "run the same command to resume"
DAMAGED_PLAN = "try again; if that fails, remove .work of a sealed dataset, or the whole folder of an unfinished one"
_T = TypeVar("_T")


@contextmanager
def disk_errors(out: Path) -> Iterator[None]:
    """Raise disk errors as DataprepError, temporary ones as TryLater.

    `out` is named if the error names no file.
    """
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        explanation = explained(error, out)
        if explanation is None:
            raise
        raise explanation from None


def uninterrupted(out: Path, work: Callable[[], _T]) -> _T:
    """Return work(). Call it again if a signal interrupts it, so `work` must be repeatable.

    Python retries most calls itself, but not stat and rename, which EINTR ends on network file systems and FUSE.
    """
    for _ in range(TRIES):
        try:
            return work()
        except InterruptedError as error:
            where = error.filename or out
    raise TryLater(f"signals keep interrupting file operations at {where}; {AGAIN}")


@contextmanager
def sqlite_scratch(folder: Path) -> Iterator[None]:
    """Make SQLite keep its temporary files in `folder`, because /tmp may be too small.

    SQLITE_TMPDIR takes precedence if it is set.
    """
    if os.environ.get("SQLITE_TMPDIR"):
        yield
        return
    _set_temporary_folder(str(folder.absolute()))
    try:
        yield
    finally:
        _set_temporary_folder("")


def _set_temporary_folder(folder: str) -> None:
    # This applies to all connections of the process. SQLite reads SQLITE_TMPDIR only once, when it is loaded.
    with closing(sqlite3.connect(":memory:")) as database, suppress(sqlite3.Error):
        database.execute("PRAGMA temp_store_directory = '{}'".format(folder.replace("'", "''")))


def explained(error: Exception, default: object) -> DataprepError | None:
    """Return a disk error as a DataprepError that names the file of the error, or else `default`.

    Returns None for other errors. Signals (EINTR, see `uninterrupted`), memory shortage and closed pipes are not disk
    errors.
    """
    if isinstance(error, sqlite3.Error):
        if is_damaged(error):
            return DataprepError(f"an SQLite file of {default} is damaged ({error}); {DAMAGED_PLAN}")
        os_error = disk_error(error)
        return None if os_error is None else explained(os_error, default)
    if not isinstance(error, OSError) or error.errno in (None, errno.EINTR, errno.EPIPE) or is_shortage(error):
        return None
    where = error.filename if error.filename is not None else default
    return _explained(error, os.fsdecode(where) if isinstance(where, bytes) else str(where))


def _explained(error: OSError, where: str) -> DataprepError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        what = "the disk is full" if error.errno == errno.ENOSPC else "the disk quota is used up"
        return TryLater(f"{what} at {where}; free some space, then {AGAIN}")
    if error.errno == errno.EFBIG:
        return DataprepError(
            f"a file at {where} has reached the file-size limit; raise `ulimit -f`, or use a smaller "
            "--shard-size with --restart"
        )
    if error.errno == errno.EROFS:
        return DataprepError(f"cannot write at {where}: {error.strerror}; fix this, then {AGAIN}")
    if error.errno in (errno.EACCES, errno.EPERM):
        return DataprepError(f"no access to {where}: {error.strerror}; fix this, then {AGAIN}")
    if error.errno == errno.EMFILE:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return TryLater(
            f"too many open files at {where} (`ulimit -n` is {limit}); raise the limit or use fewer --workers; {AGAIN}"
        )
    if error.errno == errno.ENFILE:
        return TryLater(f"too many open files on this machine, at {where}; run the same command later to resume")
    if error.errno in PASSING_ERRORS:
        return TryLater(f"the disk fails at {where}: {error.strerror}; once it works again, {AGAIN}")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return DataprepError(f"{where} is missing ({error.strerror}): another program moved or removed it; {AGAIN}")
    return DataprepError(f"cannot continue at {where}: {error.strerror}; fix this, then {AGAIN}")
