"""The saved plan: an SQLite file that says which item goes into which shard."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dataprep.errors import DataprepError
from dataprep.items import Item, Reject
from dataprep.mindrecord.format import Geometry
from schemas.layout import SPLITS
from schemas.storage.sqlite_errors import disk_error, open_unchanging

_DAMAGED = "try once more; where it stays so, remove .work of a sealed set, or the whole folder of an unfinished one"
_DIFFERENCE = """
SELECT key, 'is new' FROM now WHERE key NOT IN (SELECT key FROM planned)
UNION ALL SELECT key, 'is gone' FROM planned WHERE key NOT IN (SELECT key FROM now)
UNION ALL SELECT key, 'has changed' FROM planned p JOIN now n USING (key)
    WHERE (p.size, p.mtime_ns) != (n.size, n.mtime_ns)
ORDER BY 1 LIMIT 1
"""


class PlannedItem(NamedTuple):
    """One row to be."""

    key: str
    label: int
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class PlannedShard:
    """One task: the items first..last of the plan become shard `number` of its split. `bytes` sums the files' sizes."""

    name: str
    split: str
    number: int
    first: int
    last: int
    bytes: int

    @property
    def items(self) -> int:
        """Files in it."""
        return self.last - self.first + 1


class Plan:
    """A saved plan, read only. Also usable on the open database of a dry run.

    `source` is where its files are to be read, if that is another path than it was made from.
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
        """Open a saved plan; it may lie on a shared file system, so no lock is taken: it never changes."""
        db = open_unchanging(path)
        try:
            return cls(db, source)
        except (sqlite3.DatabaseError, ValueError, KeyError) as error:
            db.close()
            raise disk_error(error, str(path)) or DataprepError(f"{path} is damaged ({error}); {_DAMAGED}") from None

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def items(self, shard: PlannedShard) -> Iterator[PlannedItem]:
        """The items of a shard in row order."""
        query = "SELECT key, label, size, mtime_ns FROM item WHERE id BETWEEN ? AND ? ORDER BY id"
        yield from map(PlannedItem._make, self._db.execute(query, (shard.first, shard.last)))

    def sample(self, count: int) -> list[PlannedItem]:
        """`count` items, or all if there are fewer, evenly spread over the plan."""
        # Item number n is taken where n * count / items passes a whole number; numbers start with 1.
        query = "SELECT key, label, size, mtime_ns FROM item WHERE id * ?1 / ?2 > (id - 1) * ?1 / ?2 ORDER BY id"
        taken = min(count, self.item_count), self.item_count
        return list(map(PlannedItem._make, self._db.execute(query, taken)))

    @property
    def item_count(self) -> int:
        """Files that are to become rows."""
        return int(self._meta["items"])

    @property
    def found(self) -> int:
        """Every file and ignored folder that the scan met."""
        return self.item_count + len(self.rejects()) + sum(self.ignored.values())

    @property
    def bytes(self) -> int:
        """Sizes of all items' files, summed."""
        return sum(shard.bytes for shard in self.shards)

    @property
    def largest_bytes(self) -> int:
        """Size of the largest item's file."""
        return int(self._meta["largest"])

    def count_ending(self, ending: str) -> int:
        """How many items have a key that ends so."""
        query = "SELECT count(*) FROM item WHERE substr(key, -length(?)) = ?"
        return int(self._db.execute(query, (ending, ending)).fetchone()[0])

    def rejects(self) -> list[Reject]:
        """What the scan itself refused."""
        return [Reject(*row) for row in self._db.execute("SELECT key, reason, detail FROM reject ORDER BY key")]

    def first_difference(self, items: Iterable[Item], mended: Mapping[str, Sequence[int]]) -> tuple[str, str] | None:
        """How the files found now differ from the planned ones: the first key, and what is new about it.

        `mended` gives the size and time of files that may differ.
        """
        with closing(sqlite3.connect("")) as now:
            now.execute("CREATE TABLE now(key TEXT PRIMARY KEY, size INT, mtime_ns INT)")
            now.executemany("INSERT INTO now VALUES(?, ?, ?)", ((i.key, i.size, i.mtime_ns) for i in items))
            now.execute("CREATE TABLE planned(key TEXT PRIMARY KEY, size INT, mtime_ns INT)")
            rows = self._db.execute("SELECT key, size, mtime_ns FROM item")
            now.executemany("INSERT INTO planned VALUES(?, ?, ?)", ((k, *mended.get(k, rest)) for k, *rest in rows))
            row = now.execute(_DIFFERENCE).fetchone()
        return (str(row[0]), str(row[1])) if row else None

    def splits(self) -> dict[str, list[PlannedShard]]:
        """The shards of each split that has any, in order."""
        present = {split: [s for s in self.shards if s.split == split] for split in SPLITS}
        return {split: shards for split, shards in present.items() if shards}

    def class_rows(self) -> dict[str, list[int]]:
        """Files of each class in each split, in label order."""
        counts = {split: [0] * len(self.classes) for split in self.splits()}
        for split, label, rows in self._db.execute("SELECT split, label, count(*) FROM item GROUP BY split, label"):
            counts[split][label] = rows
        return counts

    def geometry(self, split: str) -> Geometry:
        """Header and page size of a split's shards, as planned from the files' sizes."""
        return Geometry(*self._meta["geometry"][split])
