"""The saved plan: an SQLite file that maps items to shards."""

import json
import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dataprep.errors import DataprepError
from dataprep.items import IN_WORK, ByteRange, Container, Item, Place, Reject, column_to_path, portable_path
from dataprep.mindrecord.format import Geometry
from dataprep.plan.sizes import mark
from dataprep.storage.disk import DAMAGED_PLAN
from schemas.layout import SPLITS
from schemas.storage.sqlite_errors import disk_error, open_unchanging

_DIFFERENCE = """
SELECT key, 'is new' FROM now WHERE key NOT IN (SELECT key FROM planned)
UNION ALL SELECT key, 'is gone' FROM planned WHERE key NOT IN (SELECT key FROM now)
UNION ALL SELECT key, 'has changed' FROM planned p JOIN now n USING (key)
    WHERE (p.size, p.mtime_ns, p.mark) != (n.size, n.mtime_ns, n.mark)
ORDER BY 1 LIMIT 1
"""
_ONE_CLASS = "SELECT split, label, count(*) FROM item WHERE label >= 0 GROUP BY split, label"
# Classes of annotations: the list `classes`, in which a class may stand several times.
_SEVERAL = """
SELECT item.split, class.label, count(DISTINCT item.id)
FROM item, json_each(item.annotation, '$.classes') AS named JOIN class ON class.name = named.value
WHERE item.label < 0 GROUP BY 1, 2
"""


# Columns of an item besides key, label, split, size and time. Plans of the first version do not have them.
PLACE_COLUMNS = ("path", "container", "offset", "length", "codec", "checksum", "annotation", "mark")


class PlannedItem(NamedTuple):
    """An image that is planned to become a row. See Item.

    `label` is -1 if it has no class or several. `annotation` is JSON text.
    """

    key: str
    label: int
    size: int
    mtime_ns: int
    place: Place = None
    annotation: str | None = None


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

    `source` is the path of SOURCE, if it differs from the planned path. `work` is the folder of unpacked data.
    """

    def __init__(self, db: sqlite3.Connection, source: str | None = None, work: Path | None = None) -> None:
        self._db = db
        self._meta = {name: json.loads(value) for name, value in db.execute("SELECT name, value FROM meta")}
        self.classes: tuple[str, ...] = tuple(name for (name,) in db.execute("SELECT name FROM class ORDER BY label"))
        self.layout: str = self._meta["layout"]
        self.source: str = source or self._meta["source"]
        self.base = os.path.dirname(self.source) if self._meta.get("is_file") else self.source
        self.options: dict[str, Any] = self._meta["options"]
        self.ignored: dict[str, int] = self._meta["ignored"]
        self.warnings: list[str] = self._meta["warnings"]
        self.fingerprint: str = self._meta["fingerprint"]
        self.shards = [
            PlannedShard(*row)
            for row in db.execute("SELECT name, split, number, first, last, bytes FROM shard ORDER BY first, name")
        ]
        known = {row[1] for row in db.execute("PRAGMA table_info(item)")}
        places = ", ".join(name if name in known else f"NULL AS {name}" for name in PLACE_COLUMNS)
        self._items = f"SELECT key, label, size, mtime_ns, {places} FROM item"
        self._containers = self._read_containers(work) if "container" in known else {}

    @classmethod
    def open(cls, path: Path, source: str | None = None) -> "Plan":
        """Open a saved plan without a lock, since it never changes.

        Raises DataprepError if the plan is damaged.
        """
        db = open_unchanging(path)
        try:
            return cls(db, source, path.absolute().parent)
        except (sqlite3.DatabaseError, ValueError, KeyError) as error:
            db.close()
            damaged = DataprepError(f"{path} is damaged ({error}); {DAMAGED_PLAN}")
            raise disk_error(error, str(path)) or damaged from None

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def items(self, shard: PlannedShard) -> Iterator[PlannedItem]:
        """Yield the items of a shard in row order."""
        rows = self._db.execute(f"{self._items} WHERE id BETWEEN ? AND ? ORDER BY id", (shard.first, shard.last))
        yield from map(self._planned, rows)

    def find(self, keys: Collection[str]) -> Iterator[PlannedItem]:
        """Yield the items with these keys, in row order. It reads the whole plan."""
        if keys:
            yield from (self._planned(row) for row in self._db.execute(f"{self._items} ORDER BY id") if row[0] in keys)

    def _planned(self, row: tuple[Any, ...]) -> PlannedItem:
        key, label, size, mtime_ns, path, container, offset, length, codec, checksum, annotation, _ = row
        place: Place = path and column_to_path(path)
        if container is not None:
            place = ByteRange(self._containers[container], offset, length, codec, checksum)
        return PlannedItem(key, label, size, mtime_ns, place, annotation)

    def _read_containers(self, work: Path | None) -> dict[int, Container]:
        containers = {}
        for number, path, size, mtime_ns in self._db.execute("SELECT id, path, size, mtime_ns FROM container"):
            path = column_to_path(path)
            if path.startswith(IN_WORK) and work is not None:
                path = os.path.join(portable_path(work), path.removeprefix(IN_WORK))
            containers[number] = Container(path, size, mtime_ns)
        return containers

    def sample(self, count: int) -> list[PlannedItem]:
        """Return `count` items, or all if there are fewer, evenly spaced over the plan."""
        # Item n (from 1) is selected if n * count / items reaches a new integer.
        ratio = min(count, self.item_count), self.item_count
        rows = self._db.execute(f"{self._items} WHERE id * ?1 / ?2 > (id - 1) * ?1 / ?2 ORDER BY id", ratio)
        return list(map(self._planned, rows))

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
            now.execute("CREATE TABLE now(key TEXT PRIMARY KEY, size INT, mtime_ns INT, mark INT)")
            found = ((i.key, i.size, i.mtime_ns, mark(i)) for i in items)
            now.executemany("INSERT INTO now VALUES(?, ?, ?, ?)", found)
            now.execute("CREATE TABLE planned(key TEXT PRIMARY KEY, size INT, mtime_ns INT, mark INT)")
            rows = self._db.execute(self._items)
            then = ((row[0], *fixed.get(row[0], (row[2], row[3])), row[-1] or 0) for row in rows)
            now.executemany("INSERT INTO planned VALUES(?, ?, ?, ?)", then)
            row = now.execute(_DIFFERENCE).fetchone()
        return (str(row[0]), str(row[1])) if row else None

    def splits(self) -> dict[str, list[PlannedShard]]:
        """Return the shards of each split that has any, in order."""
        present = {split: [s for s in self.shards if s.split == split] for split in SPLITS}
        return {split: shards for split, shards in present.items() if shards}

    def class_rows(self) -> dict[str, list[int]]:
        """Return the number of images per class, in label order, for each split.

        An image of several classes counts in each of them.
        """
        counts = {split: [0] * len(self.classes) for split in self.splits()}
        queries = [_ONE_CLASS, _SEVERAL] if self.has_annotations else [_ONE_CLASS]
        for query in queries if self.classes else ():
            for split, label, rows in self._db.execute(query):
                counts[split][label] += rows
        return counts

    @property
    def has_containers(self) -> bool:
        """True if any image is a byte range of a container."""
        return bool(self._containers)

    @property
    def has_annotations(self) -> bool:
        """True if any item has an annotation."""
        if "NULL AS annotation" in self._items:  # a plan of the first version
            return False
        return self._db.execute("SELECT 1 FROM item WHERE annotation IS NOT NULL LIMIT 1").fetchone() is not None

    def geometry(self, split: str) -> Geometry:
        """Return the planned header and page size of a split."""
        return Geometry(*self._meta["geometry"][split])
