"""Assign splits to the images of a plan: from a file, by exact fractions of each class, by hash, or by group.

It works on the table `found` of the planner, whose column `split` is NULL where the source gave no split.
"""

import csv
import re
import sqlite3
from collections.abc import Iterator
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
_BY_IMAGE = """
CREATE TEMP TABLE ranked(row INTEGER PRIMARY KEY, split TEXT);
INSERT INTO ranked
SELECT row, CASE WHEN nth <= val THEN 'val' WHEN nth <= val + test THEN 'test' ELSE 'train' END FROM (
    SELECT found.rowid AS row, val, test, row_number() OVER (PARTITION BY found.class ORDER BY rank, key) AS nth
    FROM found JOIN quota ON quota.class = found.class WHERE split IS NULL);
UPDATE found SET split = (SELECT split FROM ranked WHERE row = found.rowid) WHERE split IS NULL;
DROP TABLE ranked;
"""
_BY_HASH = """
UPDATE found SET split = CASE WHEN rank_of(coalesce("group", key)) < :val THEN 'val'
    WHEN rank_of(coalesce("group", key)) < :test THEN 'test' ELSE 'train' END
WHERE split IS NULL
"""
# The name of an image without its last number: frame_0012 of video3, scan 7 of patient12.
_SERIES = re.compile(r"(.*\d.*?)[ _.-]+[a-z]*\d+", re.IGNORECASE)
# Images of a series, and fraction of all images in series across splits, that suggest groups.
_SERIES_IMAGES, _SERIES_FRACTION = 3, 0.3


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


def assign_splits(db: sqlite3.Connection, options: ShardOptions) -> tuple[int, list[str]]:
    """Give every image in `found` a split.

    Returns the number of images that the split file does not list, which are removed, and warnings. Raises
    DataprepError for a split file or expression that cannot be used.
    """
    warnings: list[str] = []
    unlisted = _from_file(db, SplitFile(options.split_file), warnings) if options.split_file else 0
    if options.group_by:
        _find_groups(db, options.group_by, warnings)
    (by_fraction,) = db.execute("SELECT EXISTS (SELECT 1 FROM found WHERE split IS NULL)").fetchone()
    _assign_rest(db, options)
    if by_fraction and not options.group_by:
        warnings += _series_warnings(db)
    if not by_fraction and (options.val, options.test) != (ShardOptions.val, ShardOptions.test):
        giver = "--split-file" if options.split_file else "SOURCE"
        warnings.append(f"{giver} gives the splits, so --val and --test have no effect")
    return unlisted, warnings


def _assign_rest(db: sqlite3.Connection, options: ShardOptions) -> None:
    db.create_function("rank_of", 1, lambda name: sizes.rank(options.seed, name), deterministic=True)
    if options.split_by == "hash":
        val = int(options.val * _RANKS)
        db.execute(_BY_HASH, {"val": val, "test": val + int(options.test * _RANKS)})
        return
    counts = db.execute("SELECT class, count(*) FROM found WHERE split IS NULL GROUP BY class").fetchall()
    quotas = [(number, *sizes.quotas(count, options.val, options.test)) for number, count in counts]
    db.execute("CREATE TEMP TABLE quota(class INTEGER PRIMARY KEY, val INT, test INT)")
    db.executemany("INSERT INTO quota VALUES(?, ?, ?)", quotas)
    if options.group_by:
        db.executescript(_BY_CLASS)
    else:  # every unit is one image, so the rank is known and no table of units is needed
        db.executescript(_BY_IMAGE)
    db.execute("DROP TABLE quota")


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


def _series_warnings(db: sqlite3.Connection) -> list[str]:
    """Warn if names such as patient12_001 and patient12_002 are in different splits."""

    def series(key: str) -> str | None:
        stem = key.rpartition("/")[2].rpartition(".")[0]
        match = _SERIES.fullmatch(stem)
        return match and match[1]

    db.create_function("series_of", 1, series, deterministic=True)
    rows = db.execute(
        "SELECT series, count(*) FROM (SELECT series_of(key) AS series, split FROM found) "
        "WHERE series IS NOT NULL GROUP BY series HAVING count(*) >= ? AND count(DISTINCT split) > 1 ORDER BY 1",
        (_SERIES_IMAGES,),
    ).fetchall()
    (images,) = db.execute("SELECT count(*) FROM found").fetchone()
    if sum(count for _, count in rows) < _SERIES_FRACTION * images:
        return []
    return [
        f"names suggest that images belong together and are in different splits, such as '{rows[0][0]}' with "
        f"{many(rows[0][1], 'image')}; if they show one patient, scene or video, keep them together: "
        r"--group-by '([^/]*\d[^/]*?)[_.-]+\d+[^/]*$'"
    ]
