"""The saved plan: an SQLite file that maps items to shards."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dataprep.disk import DAMAGED_PLAN
from dataprep.errors import DataprepError
from dataprep.items import Item, Reject
from dataprep.mindrecord.format import Geometry
from schemas.layout import SPLITS
from schemas.storage.sqlite_errors import disk_error, open_unchanging

_DIFFERENCE = """
SELECT key, 'is new' FROM now WHERE key NOT IN (SELECT key FROM planned)
UNION ALL SELECT key, 'is gone' FROM planned WHERE key NOT IN (SELECT key FROM now)
UNION ALL SELECT key, 'has changed' FROM planned p JOIN now n USING (key)
    WHERE (p.size, p.mtime_ns) != (n.size, n.mtime_ns)
ORDER BY 1 LIMIT 1
"""


class PlannedItem(NamedTuple):
    """A file that is planned to become a row."""

    key: str
    label: int
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class PlannedShard:
    """Items `first` to `last` of the plan become shard `number` of `split`.

    `bytes` is the total size of their files.
    """

    name: str
    split: str
    number: int
    first: int
    last: int
    bytes: int

    @property
    def items(self) -> int:
        """Number of files."""
        return self.last - self.first + 1


class Plan:
    """A saved plan, read only. A dry run opens it on an in-memory database.

    `source` is the path to read the files from, if it differs from the planned path.
    """

    def __init__(self, db: sqlite3.Connection, source: str | None = None) -> None:
        self._db = db
        self._meta = {name: json.loads(value) for name, value in db.execute("SELECT name, value FROM meta")}
        self.classes: tuple[str, ...] = tuple(name for (name,) in db.execute("SELECT name FROM class ORDER BY label"))
        self.layout: str = self._meta["layout"]
        self.source: str = source or self._meta["source"]
        self.options: dict[str, Any] = self._meta["options"]
        self.ignored: dict[str, int] = self._meta["ignored"]
        self.warnings: list[str] = self._meta["warnings"]
        self.fingerprint: str = self._meta["fingerprint"]
        self.shards = [
            PlannedShard(*row)
            for row in db.execute("SELECT name, split, number, first, last, bytes FROM shard ORDER BY first, name")
        ]

    @classmethod
    def open(cls, path: Path, source: str | None = None) -> "Plan":
        """Open a saved plan without a lock, since it never changes.

        Raises DataprepError if the plan is damaged.
        """
        db = open_unchanging(path)
        try:
            return cls(db, source)
        except (sqlite3.DatabaseError, ValueError, KeyError) as error:
            db.close()
            damaged = DataprepError(f"{path} is damaged ({error}); {DAMAGED_PLAN}")
            raise disk_error(error, str(path)) or damaged from None

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def items(self, shard: PlannedShard) -> Iterator[PlannedItem]:
        """Yield the items of a shard in row order."""
        query = "SELECT key, label, size, mtime_ns FROM item WHERE id BETWEEN ? AND ? ORDER BY id"
        yield from map(PlannedItem._make, self._db.execute(query, (shard.first, shard.last)))

    def sample(self, count: int) -> list[PlannedItem]:
        """Return `count` items, or all if there are fewer, evenly spaced over the plan."""
        # Item n (from 1) is selected if n * count / items reaches a new integer.
        query = "SELECT key, label, size, mtime_ns FROM item WHERE id * ?1 / ?2 > (id - 1) * ?1 / ?2 ORDER BY id"
        ratio = min(count, self.item_count), self.item_count
        return list(map(PlannedItem._make, self._db.execute(query, ratio)))

    @property
    def item_count(self) -> int:
        """Number of files that are planned to become rows."""
        return int(self._meta["items"])

    @property
    def found(self) -> int:
        """Number of files and ignored folders in the scan."""
        return self.item_count + len(self.rejects()) + sum(self.ignored.values())

    @property
    def bytes(self) -> int:
        """Total size of all files."""
        return sum(shard.bytes for shard in self.shards)

    @property
    def largest_bytes(self) -> int:
        """Size of the largest file."""
        return int(self._meta["largest"])

    def count_ending(self, ending: str) -> int:
        """Return the number of items whose key ends with `ending`."""
        query = "SELECT count(*) FROM item WHERE substr(key, -length(?)) = ?"
        return int(self._db.execute(query, (ending, ending)).fetchone()[0])

    def rejects(self) -> list[Reject]:
        """Return the files rejected by the scan."""
        return [Reject(*row) for row in self._db.execute("SELECT key, reason, detail FROM reject ORDER BY key")]

    def first_difference(self, items: Iterable[Item], fixed: Mapping[str, Sequence[int]]) -> tuple[str, str] | None:
        """Return the first key at which `items` differ from the planned files, and the difference.

        `fixed` gives the expected size and time of files that were changed after planning.
        """
        with closing(sqlite3.connect("")) as now:
            now.execute("CREATE TABLE now(key TEXT PRIMARY KEY, size INT, mtime_ns INT)")
            now.executemany("INSERT INTO now VALUES(?, ?, ?)", ((i.key, i.size, i.mtime_ns) for i in items))
            now.execute("CREATE TABLE planned(key TEXT PRIMARY KEY, size INT, mtime_ns INT)")
            rows = self._db.execute("SELECT key, size, mtime_ns FROM item")
            now.executemany("INSERT INTO planned VALUES(?, ?, ?)", ((k, *fixed.get(k, rest)) for k, *rest in rows))
            row = now.execute(_DIFFERENCE).fetchone()
        return (str(row[0]), str(row[1])) if row else None

    def splits(self) -> dict[str, list[PlannedShard]]:
        """Return the shards of each split that has any, in order."""
        present = {split: [s for s in self.shards if s.split == split] for split in SPLITS}
        return {split: shards for split, shards in present.items() if shards}

    def class_rows(self) -> dict[str, list[int]]:
        """Return the number of files per class, in label order, for each split."""
        counts = {split: [0] * len(self.classes) for split in self.splits()}
        for split, label, rows in self._db.execute("SELECT split, label, count(*) FROM item GROUP BY split, label"):
            counts[split][label] = rows
        return counts

    def geometry(self, split: str) -> Geometry:
        """Return the planned header and page size of a split."""
        return Geometry(*self._meta["geometry"][split])
