"""The SQLite index of a shard, <shard>.db."""

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from schemas.errors import ContractError
from schemas.layout import index_name
from schemas.record import RecordSchema
from schemas.storage.index_file import open_index

COLUMNS = (
    "ROW_ID",
    "PAGE_ID_RAW",
    "PAGE_OFFSET_RAW",
    "PAGE_OFFSET_RAW_END",
    "ROW_GROUP_ID",
    "PAGE_ID_BLOB",
    "PAGE_OFFSET_BLOB",
    "PAGE_OFFSET_BLOB_END",
)
_SQL_TYPES = {"string": "TEXT", "float32": "REAL", "float64": "REAL", "int32": "INTEGER", "int64": "INTEGER"}
# Bytes 96..99 are the SQLite release of the writer, which nothing reads. A fixed value makes the file independent of
# the release.
_WRITER_RELEASE = (96, (3_040_000).to_bytes(4, "big"))

IndexRow = tuple[Any, ...]


class IndexWriter:
    """Writes <shard>.db. A row has COLUMNS followed by the values of the schema's index fields."""

    def __init__(self, shard: Path, schema: RecordSchema) -> None:
        self._path = shard.with_name(index_name(shard.name))
        self._path.open("wb").close()  # SQLite does not report why it cannot create a file
        self._fields = schema.index_fields
        # No locks: the attempt folder is private, and some file systems have none.
        address = f"{self._path.absolute().as_uri()}?nolock=1"
        self._db = sqlite3.connect(address, isolation_level=None, uri=True)
        # No journal: an unfinished shard is deleted.
        for pragma in ("page_size = 4096", "journal_mode = OFF", "synchronous = OFF", "encoding = 'UTF-8'"):
            self._db.execute(f"PRAGMA {pragma}")
        self._create(shard.name)

    def _create(self, name: str) -> None:
        incs = [f"INC_{i}" for i in range(len(self._fields))]
        columns = [f"{column} INT NOT NULL" for column in COLUMNS]
        for inc, field in zip(incs, self._fields, strict=True):
            columns += [f"{inc} INT", f"{field.name}_0 {_SQL_TYPES[field.type]}"]
        key = ", ".join(["ROW_ID", *incs])
        self._db.execute("BEGIN")
        self._db.execute(f"CREATE TABLE INDEXES({', '.join(columns)}, PRIMARY KEY({key}))")
        self._db.execute("CREATE TABLE SHARD_NAME(NAME TEXT NOT NULL)")
        self._db.execute("INSERT INTO SHARD_NAME VALUES(?)", (name,))
        marks = ["?"] * len(COLUMNS) + ["0", "?"] * len(self._fields)
        self._insert = f"INSERT INTO INDEXES VALUES({', '.join(marks)})"

    def add(self, rows: Iterable[IndexRow]) -> None:
        """Append rows."""
        self._db.executemany(self._insert, rows)

    def close(self) -> None:
        """Commit and close. The file is then complete but not synced."""
        self._db.execute("COMMIT")
        self._db.close()
        offset, release = _WRITER_RELEASE
        with self._path.open("r+b") as file:
            file.seek(offset)
            file.write(release)

    def abandon(self) -> None:
        """Close without committing."""
        self._db.close()


def read_index(shard: Path, schema: RecordSchema) -> Iterator[IndexRow]:
    """Yield the index rows of a shard in row order: COLUMNS, then the indexed values.

    Raises ContractError if the index is damaged.
    """
    values = [f'"{field.name}_0"' for field in schema.index_fields]
    yield from _query(shard, f"SELECT {', '.join([*COLUMNS, *values])} FROM INDEXES ORDER BY ROW_ID")


def read_index_name(shard: Path) -> str:
    """Return the shard name in the index. MindDataset rejects another name.

    Raises ContractError if the index is damaged.
    """
    names = [row[0] for row in _query(shard, "SELECT NAME FROM SHARD_NAME")]
    if len(names) != 1:
        raise ContractError(f"{index_name(shard.name)} names {len(names)} shards, expected one")
    return str(names[0])


def find_rows(shard: Path, field: str, value: object) -> list[int]:
    """Return the numbers of the rows whose indexed `field` equals `value`.

    Raises ContractError if the index is damaged.
    """
    return [int(row[0]) for row in _query(shard, f'SELECT ROW_ID FROM INDEXES WHERE "{field}_0" = ?', (value,))]


def _query(shard: Path, sql: str, values: tuple[object, ...] = ()) -> Iterator[tuple[Any, ...]]:
    with open_index(shard.with_name(index_name(shard.name))) as db:
        yield from db.execute(sql, values)
