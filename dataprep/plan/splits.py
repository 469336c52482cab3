"""Assign splits to the images of a plan: from a file, by exact fractions of each class, by hash, or by group.

It works on the table `found` of the planner, whose column `split` is NULL where the source gave no split.
"""

import csv
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path

from dataprep.errors import DataprepError
from dataprep.options import ShardOptions
from dataprep.plan import sizes
from schemas.counting import many
from schemas.layout import SPLITS

_RANKS = 1 << 63  # number of values of sizes.rank
# In seeded order, the first units of a class go to val, the next to test, the rest to train. A unit is an image or a
# group of images; it goes to a split if at least half of it is within the quota.
_BY_CLASS = """
CREATE TEMP TABLE unit AS
SELECT name, class, size, sum(size) OVER (PARTITION BY class ORDER BY rank_of(name), name) - size AS before FROM (
    SELECT coalesce("group", key) AS name, min(class) AS class, count(*) AS size FROM found
    WHERE split IS NULL GROUP BY name);
CREATE INDEX temp.unit_name ON unit(name);
UPDATE found SET split = (
    SELECT CASE WHEN before + size / 2.0 <= val THEN 'val' WHEN before + size / 2.0 <= val + test THEN 'test'
        ELSE 'train' END
    FROM unit JOIN quota ON quota.class = unit.class WHERE unit.name = coalesce(found."group", found.key))
WHERE split IS NULL;
DROP TABLE unit;
"""
# Without groups a unit is one image, and its rank decides: `last_val` and `last_test` are the last ranks of a class.
# Ranks have 63 bits, so two keys with the same rank do not occur.
_BY_IMAGE = """
SELECT {columns}, coalesce(split, CASE WHEN rank <= last_val THEN 'val' WHEN rank <= last_test THEN 'test'
    ELSE 'train' END) AS split FROM found LEFT JOIN bound ON bound.class = found.class
"""
_BY_RANK = """
SELECT {columns}, coalesce(split, CASE WHEN rank < {val} THEN 'val' WHEN rank < {test} THEN 'test' ELSE 'train' END)
    AS split FROM found
"""
_BY_GROUP_RANK = """
UPDATE found SET split = CASE WHEN rank_of(coalesce("group", key)) < :val THEN 'val'
    WHEN rank_of(coalesce("group", key)) < :test THEN 'test' ELSE 'train' END
WHERE split IS NULL
"""
_GIVEN = "SELECT {columns}, split FROM found"
# The name of an image without its last number: frame_0012 of video3, scan 7 of patient12.
_SERIES = re.compile(r"(.*\d.*?)[ _.-]+[a-z]*\d+", re.IGNORECASE)
# Images of a series, and fraction of all images in series across splits, that suggest groups.
_SERIES_IMAGES, _SERIES_FRACTION = 3, 0.3
_SERIES_SAMPLE = 20_000  # images whose names are compared


class SplitFile:
    """The table of `--split-file`: a CSV or TSV file with the columns key and split."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield key and split. Raises DataprepError for a file that is no such table."""
        try:
            with self._path.open(encoding="utf-8-sig", newline="") as file:
                delimiter = "\t" if "\t" in file.readline() else ","
                file.seek(0)
                table = csv.DictReader(file, delimiter=delimiter, strict=True)
                missing = {"key", "split"} - set(table.fieldnames or ())
                if missing:
                    raise self._wrong(1, f"no column '{min(missing)}'; it needs the columns key and split")
                for row in table:
                    if row["key"] is None or row["split"] not in SPLITS:
                        raise self._wrong(table.line_num, f"split {row['split']!r} is not one of {', '.join(SPLITS)}")
                    yield row["key"], row["split"]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise DataprepError(f"--split-file {self._path} cannot be read: {error}") from None

    def _wrong(self, line: int, problem: str) -> DataprepError:
        return DataprepError(f"--split-file {self._path}, line {line}: {problem}")


@dataclass(frozen=True)
class Assigned:
    """The splits of a plan.

    `query` returns the rows of `found` with their splits. `unlisted` is the number of images that the split file does
    not list, which were removed from `found`. `by_names` is True if the splits do not keep groups together.
    """

    query: str
    unlisted: int
    warnings: list[str]
    by_names: bool


def assign_splits(db: sqlite3.Connection, columns: str, options: ShardOptions) -> Assigned:
    """Decide the split of every image in `found`. `columns` are those of the query besides the split.

    Raises DataprepError for a split file or expression that cannot be used.
    """
    warnings: list[str] = []
    unlisted = _from_file(db, SplitFile(options.split_file), warnings) if options.split_file else 0
    if options.group_by:
        _find_groups(db, options.group_by, warnings)
    (undecided,) = db.execute("SELECT EXISTS (SELECT 1 FROM found WHERE split IS NULL)").fetchone()
    if not undecided and (options.val, options.test) != (ShardOptions.val, ShardOptions.test):
        giver = "--split-file" if options.split_file else "SOURCE"
        warnings.append(f"{giver} gives the splits, so --val and --test have no effect")
    query = _assign_rest(db, options) if undecided else _GIVEN
    bounds = {"val": int(options.val * _RANKS), "test": int((options.val + options.test) * _RANKS)}
    return Assigned(
        query.format(columns=columns, **bounds), unlisted, warnings, bool(undecided and not options.group_by)
    )


def _assign_rest(db: sqlite3.Connection, options: ShardOptions) -> str:
    """Give a split to each group, or return the query that gives one to each image."""
    db.create_function("rank_of", 1, lambda name: sizes.rank(options.seed, name), deterministic=True)
    if options.split_by == "hash":
        if not options.group_by:
            return _BY_RANK
        bounds = {"val": int(options.val * _RANKS), "test": int((options.val + options.test) * _RANKS)}
        db.execute(_BY_GROUP_RANK, bounds)
        return _GIVEN
    counts = db.execute("SELECT class, count(*) FROM found WHERE split IS NULL GROUP BY class").fetchall()
    quotas = {number: sizes.quotas(count, options.val, options.test) for number, count in counts}
    if not options.group_by:
        db.execute("CREATE TEMP TABLE bound(class INTEGER PRIMARY KEY, last_val INT, last_test INT)")
        db.executemany("INSERT INTO bound VALUES(?, ?, ?)", _last_ranks(db, quotas))
        return _BY_IMAGE
    db.execute("CREATE TEMP TABLE quota(class INTEGER PRIMARY KEY, val INT, test INT)")
    db.executemany("INSERT INTO quota VALUES(?, ?, ?)", ((number, *quota) for number, quota in quotas.items()))
    db.executescript(_BY_CLASS)
    return _GIVEN


def _last_ranks(db: sqlite3.Connection, quotas: dict[int, tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield each class with the rank of its last image in val and in test; -1 if there is none.

    A window function of SQLite takes three times as long.
    """
    rows = db.execute("SELECT class, rank FROM found WHERE split IS NULL ORDER BY class, rank")
    for number, of_class in groupby(rows, key=itemgetter(0)):
        val, test = quotas[number]
        first = [rank for _, rank in islice(of_class, val + test)]
        yield number, first[val - 1] if val else -1, first[-1] if first else -1


def _from_file(db: sqlite3.Connection, listed: SplitFile, warnings: list[str]) -> int:
    """Take the splits of `listed`. Remove the images that are not in it and return their number."""
    db.execute("CREATE TEMP TABLE listed(key TEXT PRIMARY KEY, split TEXT)")
    try:
        db.executemany("INSERT INTO listed VALUES(?, ?)", listed.rows())
    except sqlite3.IntegrityError:
        (twice,) = db.execute("SELECT key FROM listed ORDER BY rowid DESC LIMIT 1").fetchone()
        raise DataprepError(f"--split-file lists a key twice, after '{twice}'; keep one of the lines") from None
    (unknown, example) = db.execute(
        "SELECT count(*), min(key) FROM listed WHERE key NOT IN (SELECT key FROM found)"
    ).fetchone()
    if unknown:
        warnings.append(f"--split-file lists {many(unknown, 'key')} that SOURCE does not have, such as '{example}'")
    removed = db.execute("DELETE FROM found WHERE key NOT IN (SELECT key FROM listed)").rowcount
    db.execute("UPDATE found SET split = (SELECT split FROM listed WHERE listed.key = found.key)")
    db.execute("DROP TABLE listed")
    return removed


def _find_groups(db: sqlite3.Connection, group_by: str, warnings: list[str]) -> None:
    """Set the group of each image whose source gave none, by a regular expression on its key."""
    (given,) = db.execute('SELECT count(*) FROM found WHERE "group" IS NOT NULL').fetchone()
    if not given:
        try:
            pattern = re.compile(group_by)
        except re.error as error:
            raise DataprepError(f"--group-by '{group_by}' is no column and no regular expression: {error}") from None

        def group(key: str) -> str | None:
            match = pattern.search(key)
            return None if match is None else (match[1] if pattern.groups else match[0])

        db.create_function("group_of", 1, group, deterministic=True)
        db.execute('UPDATE found SET "group" = group_of(key)')
    (alone, found) = db.execute('SELECT sum("group" IS NULL), count(*) FROM found').fetchone()
    if alone == found:
        raise DataprepError(
            f"--group-by '{group_by}' is no column of SOURCE and matches no key, such as '{_first(db)}'"
        )
    if alone:
        warnings.append(f"--group-by gives no group to {many(alone, 'image')}: each of them is a group of its own")
    across = db.execute(
        'SELECT "group" FROM found WHERE "group" IS NOT NULL AND split IS NOT NULL GROUP BY "group" '
        "HAVING count(DISTINCT split) > 1 ORDER BY 1"
    ).fetchall()
    if across:
        warnings.append(
            f"{many(len(across), 'group')} of --group-by, such as '{across[0][0]}', are in several splits, because "
            "SOURCE or --split-file gives the splits"
        )


def _first(db: sqlite3.Connection) -> str:
    return str(db.execute("SELECT min(key) FROM found").fetchone()[0])


def series_warnings(db: sqlite3.Connection) -> list[str]:
    """Warn if names such as patient12_001 and patient12_002 are in different splits."""

    def series(key: str) -> str | None:
        stem = key.rpartition("/")[2].rpartition(".")[0]
        match = _SERIES.fullmatch(stem)
        return match and match[1]

    # Whole classes, so that a series is not cut, about _SERIES_SAMPLE images.
    items, classes = db.execute("SELECT count(*), max(label) + 1 FROM item").fetchone()
    last = max(0, classes * _SERIES_SAMPLE // items - 1)
    splits: dict[str, Counter[str]] = {}
    images = 0
    for key, split in db.execute("SELECT key, split FROM item WHERE label <= ? LIMIT ?", (last, 5 * _SERIES_SAMPLE)):
        images += 1
        name = series(key)
        if name:
            splits.setdefault(name, Counter())[split] += 1
    across = {name: seen.total() for name, seen in splits.items() if len(seen) > 1 and seen.total() >= _SERIES_IMAGES}
    if sum(across.values()) < _SERIES_FRACTION * images:
        return []
    example = min(across)
    return [
        f"names suggest that images belong together and are in different splits, such as '{example}' with "
        f"{many(across[example], 'image')}; if they show one patient, scene or video, keep them together: "
        r"--group-by '([^/]*\d[^/]*?)[_.-]+\d+[^/]*$'"
    ]
