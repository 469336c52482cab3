"""Assign items to splits and shards before the first byte is written.

The plan is an SQLite file that is written once and then only read, so a million files need disk space, not memory.
"""

import json
import sqlite3
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice, pairwise
from pathlib import Path

from dataprep.errors import DataprepError, DataRejected
from dataprep.items import Folder, Ignored, Item, Notice, Reject, ScanEntry, encode_name, key_to_path
from dataprep.options import ShardOptions
from dataprep.plan import sizes
from schemas.counting import many
from schemas.layout import shard_name

_TABLES = """
CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE found(key TEXT, class INT, split TEXT, size INT, mtime_ns INT, rank INT);
CREATE TABLE reject(key TEXT, reason TEXT, detail TEXT);
CREATE TABLE item(id INTEGER PRIMARY KEY, key TEXT, label INT, split TEXT, size INT, mtime_ns INT);
CREATE TABLE shard(name TEXT PRIMARY KEY, split TEXT, number INT, first INT, last INT, bytes INT);
CREATE TABLE class(name TEXT PRIMARY KEY, label INT, id INT, val INT, test INT);
"""
# In seeded order, the first files of a class go to val, the next to test, the rest to train.
_ASSIGN = """
INSERT INTO item(key, label, split, size, mtime_ns)
SELECT key, label, coalesce(split, CASE WHEN place <= val THEN 'val' WHEN place <= val + test THEN 'test'
    ELSE 'train' END) AS side, size, mtime_ns FROM (
    SELECT f.key, c.label, f.split, f.size, f.mtime_ns, f.rank, c.val, c.test,
        row_number() OVER (PARTITION BY f.class ORDER BY f.rank, f.key) AS place
    FROM found f JOIN class c ON c.id = f.class)
ORDER BY CASE side WHEN 'train' THEN 0 WHEN 'val' THEN 1 ELSE 2 END, rank, key
"""


def make_plan(path: Path, entries: Iterable[ScanEntry], source: str, layout: str, options: ShardOptions) -> None:
    """Write the plan of the `entries` of a scan to an SQLite file at `path`.

    `source` is the absolute path of SOURCE as returned by portable_path. It is saved to detect a rerun with another
    SOURCE. Raises DataprepError if no plan is possible.
    """
    path.open("wb").close()  # SQLite does not report why it cannot create a file
    # No locks: the job has its own, and some file systems have none.
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?nolock=1", uri=True)) as db:
        fill_plan(db, entries, source, layout, options)


def fill_plan(
    db: sqlite3.Connection, entries: Iterable[ScanEntry], source: str, layout: str, options: ShardOptions
) -> None:
    """Write the plan to an open, empty database. A dry run uses `sqlite3.connect("")`."""
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    db.executescript(_TABLES)
    scan = _ScanTables(db, options.seed)
    scan.add(entries)
    classes = _class_order(scan.folders, options.classes)
    warnings = _class_warnings(classes, options.classes is not None)
    _add_classes(db, classes, scan.classes, options)
    db.execute(_ASSIGN)
    db.execute("DROP TABLE found")
    items, largest = db.execute("SELECT count(*), max(size) FROM item").fetchone()
    if not items:
        expected = _EXPECTED.get(layout, "images in the folders of this layout")
        raise DataprepError(f"no image was found below {source}; expected {expected}")
    geometry = _add_shards(db, options)
    meta = {
        "source": source,
        "layout": layout,
        "options": options.deciding(),
        "ignored": dict(sorted(scan.ignored.items())),
        "items": items,
        "geometry": geometry,
        "largest": largest,
        "fingerprint": sizes.fingerprint(scan.fingerprint),
        "warnings": [
            *scan.notices,
            *warnings,
            *_option_warnings(db, layout, options),
            *_empty_classes(db, options.empty_classes),
            *_count_warnings(db),
        ],
    }
    db.executemany("INSERT INTO meta VALUES(?, ?)", [(name, json.dumps(value)) for name, value in meta.items()])
    db.commit()


_EXPECTED = {"classes": "SOURCE/<class>/<image>", "splits": "SOURCE/{train,val,test}/<class>/<image>"}


class _ScanTables:
    """Writes the entries of a scan to tables and counts them. Only one batch of items is in memory."""

    def __init__(self, db: sqlite3.Connection, seed: int) -> None:
        self._db = db
        self._seed = seed
        self.ignored: Counter[str] = Counter()
        self.folders: list[Folder] = []
        self.notices: list[str] = []
        self.classes: dict[str, int] = {}  # number of a class in the table `found`
        self.fingerprint = 0

    def add(self, entries: Iterable[ScanEntry]) -> None:
        items = self._items(entries)
        while batch := list(islice(items, 5000)):
            self._db.executemany("INSERT INTO found VALUES(?, ?, ?, ?, ?, ?)", batch)

    def _items(self, entries: Iterable[ScanEntry]) -> Iterator[tuple[object, ...]]:
        for entry in entries:
            if isinstance(entry, Item):
                key, name, split, size, mtime_ns = entry
                rank = sizes.rank(self._seed, key)
                self.fingerprint += sizes.fingerprint_part(rank, size, mtime_ns)
                yield key, self.classes.setdefault(name, len(self.classes)), split, size, mtime_ns, rank
            elif isinstance(entry, Ignored):
                self.ignored[entry.rule] += 1
            elif isinstance(entry, Reject):
                self._db.execute("INSERT INTO reject VALUES(?, ?, ?)", (entry.key, entry.reason, entry.detail))
            elif isinstance(entry, Folder):
                self.folders.append(entry)
            elif isinstance(entry, Notice):
                self.notices.append(entry.text)
            else:  # a ClosedFolder, which ends the scan
                raise DataRejected(f"the folder '{entry.key}' of SOURCE cannot be listed: {entry.detail}")


def _class_order(folders: list[Folder], given: tuple[str, ...] | None) -> list[str]:
    """Return class names in label order: as given, or sorted by bytes as in ImageFolderDataset."""
    train = {folder.class_name for folder in folders if folder.split in (None, "train")}
    classes = list(given) if given is not None else sorted(train, key=lambda name: encode_name(key_to_path(name)))
    for folder in sorted(folders, key=lambda f: (f.class_name, f.split or "")):
        if folder.class_name not in classes:
            expected = "the list of --classes" if given is not None else "train, whose classes all splits use"
            where = f"{folder.split}/" if folder.split else ""
            raise DataprepError(
                f"class folder '{where}{folder.class_name}' is not in {expected}; "
                f"add it there, or exclude it with --ignore '{folder.class_name}'"
            )
    if not classes:
        raise DataprepError("SOURCE has no class folder; expected SOURCE/<class>/<image>")
    return classes


def _class_warnings(classes: list[str], ordered: bool) -> list[str]:
    return [*_twin_warnings(classes), *_number_warnings(classes, ordered)]


def _twin_warnings(classes: list[str]) -> list[str]:
    """Warn about class names that look equal.

    They differ only in case or Unicode normalization (NFC, NFD).
    """
    first_names: dict[str, str] = {}
    twins = []
    for name in classes:
        first = first_names.setdefault(unicodedata.normalize("NFC", name).casefold(), name)
        if first != name:
            twins.append(f"the classes '{first}' and '{name}' differ only in case or in how an accent is written")
    return twins


def _number_warnings(classes: list[str], ordered: bool) -> list[str]:
    numbers = [name for name in classes if name.isascii() and name.isdigit()]
    if ordered or len(numbers) < 2 or numbers == sorted(numbers, key=int):
        return []
    return [
        f"class names are numbers that sort as text ('{classes[0]}', '{classes[1]}', ...), "
        "as in ImageFolderDataset; if a label must equal its number, set the order with --classes FILE"
    ]


def _add_classes(db: sqlite3.Connection, classes: list[str], numbers: dict[str, int], options: ShardOptions) -> None:
    counts = dict(db.execute("SELECT class, count(*) FROM found WHERE split IS NULL GROUP BY class"))
    rows = [
        (name, label, numbers.get(name), *sizes.quotas(counts.get(numbers.get(name), 0), options.val, options.test))
        for label, name in enumerate(classes)
    ]
    db.executemany("INSERT INTO class VALUES(?, ?, ?, ?, ?)", rows)


def _add_shards(db: sqlite3.Connection, options: ShardOptions) -> dict[str, list[int]]:
    """Divide each split into shards. Return the header and page size per split."""
    query = "SELECT split, min(id), max(id), sum(size), max(size) FROM item GROUP BY split ORDER BY min(id)"
    splits = {split: rest for split, *rest in db.execute(query).fetchall()}
    train_bytes = splits["train"][2] if "train" in splits else max((rest[2] for rest in splits.values()), default=1)
    shard_size = options.shard_size or sizes.shard_size(sum(rest[2] for rest in splits.values()))
    geometry = {}
    rows = {split: last - first + 1 for split, (first, last, _, _) in splits.items()}
    most = rows.get("train", max(rows.values(), default=0))
    if options.num_shards and options.num_shards > most:
        images = many(most, "image")
        raise DataprepError(f"--num-shards {options.num_shards} is too large for {images}")
    for split, (first, last, size, largest) in splits.items():
        count = sizes.shard_count(size, train_bytes, shard_size, options.num_shards)
        count = min(count, rows[split])  # a tiny --shard-size means one image per shard, no empty shards
        _divide_split(db, split, first, last, size, count)
        planned = sizes.geometry((size + rows[split] * sizes.ROW_OVERHEAD) // count, largest, count)
        geometry[split] = [planned.header_size, planned.page_size]
    return geometry


def _divide_split(db: sqlite3.Connection, split: str, first: int, last: int, size: int, count: int) -> None:
    starts: list[tuple[int, int]] = []  # per shard: first item, bytes before it
    before = begin = 0
    for item, item_size in db.execute("SELECT id, size FROM item WHERE id BETWEEN ? AND ? ORDER BY id", (first, last)):
        while before >= begin and len(starts) < count:
            starts.append((item, before))
            begin = sizes.shard_begin(len(starts), size, count)
        before += item_size
    starts += [(last + 1, before)] * (count + 1 - len(starts))
    rows = [
        (shard_name(split, number, count), split, number, start, end - 1, after - at)
        for number, ((start, at), (end, after)) in enumerate(pairwise(starts))
    ]
    db.executemany("INSERT INTO shard VALUES(?, ?, ?, ?, ?, ?)", rows)


def _empty_classes(db: sqlite3.Connection, action: str) -> list[str]:
    """Warn about classes without a file, which keep their labels.

    Raises DataprepError with --empty-classes error.
    """
    query = "SELECT name FROM class WHERE label NOT IN (SELECT label FROM item) ORDER BY label"
    names = [name for (name,) in db.execute(query)]
    if not names or action == "keep":
        return []
    have = "has" if len(names) == 1 else "have"
    warning = f"{many(len(names), 'class', 'classes')} {have} a label but no image: {_name_some(names)}"
    if action == "error":
        raise DataprepError(f"{warning}; --empty-classes warn keeps their labels, --ignore excludes a folder")
    return [warning]


def _name_some(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:5]) + (", ..." if len(names) > 5 else "")


def _option_warnings(db: sqlite3.Connection, layout: str, options: ShardOptions) -> list[str]:
    """Warn about options that have no effect here, or probably not the intended effect."""
    warnings = []
    if layout == "splits" and (options.val, options.test) != (ShardOptions.val, ShardOptions.test):
        warnings.append("SOURCE has split folders, so --val and --test have no effect")
    (empty,) = db.execute("SELECT count(*) FROM shard WHERE last < first").fetchone()
    if empty and options.num_shards:
        warnings.append(f"{many(empty, 'shard')} will be empty: --num-shards {options.num_shards} is too large")
    return warnings


def _count_warnings(db: sqlite3.Connection) -> list[str]:
    """Warn about classes that have images in other splits but not in this one."""
    warnings = []
    splits = [split for (split,) in db.execute("SELECT split FROM item GROUP BY split ORDER BY min(id)")]
    for split in splits:
        query = (
            "SELECT name FROM class WHERE label IN (SELECT label FROM item) "
            "AND label NOT IN (SELECT label FROM item WHERE split = ?) ORDER BY label"
        )
        names = [name for (name,) in db.execute(query, (split,))]
        if names:
            warnings.append(f"{split} has no image of {many(len(names), 'class', 'classes')}: {_name_some(names)}")
    return warnings
