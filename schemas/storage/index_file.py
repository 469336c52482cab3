"""Open the SQLite index of a shard. Its contents are not trusted."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import ContractError
from schemas.storage.sqlite_errors import disk_error, open_unchanging

_TABLES = ("INDEXES", "SHARD_NAME")
# SQLite does not report which system error occurred.
_OF_THE_DISK = frozenset({"disk I/O error", "unable to open database file"})
_OWN_INDEX = "sqlite_autoindex_"  # created by SQLite for a primary key


@contextmanager
def open_index(path: Path) -> Iterator[sqlite3.Connection]:
    """Open an index read-only.

    Raises ContractError if the file is not an index, and for SQLite's errors inside the context. Raises OSError for
    disk errors. The only tables must be INDEXES and SHARD_NAME, without generated columns: a view or a generated column
    can compute forever or return anything.
    """
    if not path.is_file():
        raise ContractError(f"{path.name} is {'not a regular file' if path.exists() else 'missing'}")
    db = open_unchanging(path)
    try:
        _check_tables(db, path.name)
        yield db
    except sqlite3.OperationalError as error:
        if str(error) in _OF_THE_DISK:
            raise OSError(errno.EIO, str(error), str(path)) from None
        raise ContractError(f"{path.name} is not the index of a shard ({error})") from None
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise disk_error(error, str(path)) or ContractError(
            f"{path.name} is not the index of a shard ({error})"
        ) from None
    finally:
        db.close()


def _check_tables(db: sqlite3.Connection, name: str) -> None:
    db.execute("PRAGMA trusted_schema = OFF")
    for (other,) in db.execute("SELECT name FROM sqlite_master"):
        if other not in _TABLES and not str(other).startswith(_OWN_INDEX):
            raise ContractError(f"{name} is not the index of a shard: it also contains {str(other)!r:.80}")
    for table in _TABLES:
        row = db.execute("SELECT type, sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        if row is None:
            raise ContractError(f"{name} is not the index of a shard: it has no table {table}")
        kind, sql = row
        hidden = [column for column in db.execute(f"PRAGMA table_xinfo({table})") if column[6]]
        if kind != "table" or not str(sql).upper().startswith("CREATE TABLE") or hidden:
            raise ContractError(f"{name} is not the index of a shard: {table} is not a plain table")
