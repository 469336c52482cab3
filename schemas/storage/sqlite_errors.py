"""Convert SQLite's disk errors to OSError."""

import errno
import sqlite3
from pathlib import Path

_FULL, _IO, _OPEN, _READ_ONLY, _BUSY, _LOCKED, _PROTOCOL, _LARGE = 13, 10, 14, 8, 5, 6, 15, 22  # SQLITE_...
_IO_NO_MEMORY = _IO | 12 << 8
_DAMAGED = (11, 26)  # SQLITE_CORRUPT, SQLITE_NOTADB
_ERRNOS = {
    _FULL: errno.ENOSPC,
    _IO: errno.EIO,
    _OPEN: errno.EIO,  # SQLite hides the cause: open_unchanging first opens the file without SQLite
    _READ_ONLY: errno.EROFS,
    _BUSY: errno.EBUSY,
    _LOCKED: errno.EBUSY,
    _PROTOCOL: errno.EBUSY,
    _LARGE: errno.EFBIG,
    _IO_NO_MEMORY: errno.ENOMEM,
}
# SQLite's messages, since Python 3.10 has no error codes.
_TEXTS = {
    "database or disk is full": _FULL,
    "disk I/O error": _IO,
    "unable to open database file": _OPEN,
    "attempt to write a readonly database": _READ_ONLY,
    "database is locked": _BUSY,
    "locking protocol": _PROTOCOL,
    "large file support is disabled": _LARGE,
}


def open_unchanging(path: Path) -> sqlite3.Connection:
    """Open a database that no process changes, read-only and without locks. Raises OSError."""
    path.open("rb").close()  # SQLite does not report why it cannot open a file
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)


def is_damaged(error: sqlite3.Error) -> bool:
    """Return True if SQLite reports a damaged file. A failed read can give the same error."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in _DAMAGED or str(error) in ("database disk image is malformed", "file is not a database")


def disk_error(error: Exception, file: str | None = None) -> OSError | None:
    """Return SQLite's disk error as an OSError with `file` as its file name; None for any other error."""
    if not isinstance(error, sqlite3.Error):
        return None
    code = getattr(error, "sqlite_errorcode", None) or _TEXTS.get(str(error), 0)
    number = _ERRNOS.get(code) or _ERRNOS.get(code & 0xFF)
    return None if number is None else OSError(number, f"SQLite: {error}", file)
