"""Find images that are in a dataset more than once, with the same file bytes or the same pixels."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from dataprep.build.receipt import Excluded, noted_rows

EVAL = ("val", "test")


@dataclass(frozen=True)
class Duplicate:
    """Rows with the same image, in key order. `kind` is bytes if the files are equal, else pixels.

    `classes` has the class of each copy, several joined by a comma.
    """

    kind: str
    keys: tuple[str, ...]
    splits: tuple[str, ...]
    classes: tuple[str, ...]
    annotations_differ: bool = False

    @property
    def is_leak(self) -> bool:
        """True if the image is in train and in val or test."""
        return "train" in self.splits and any(split in self.splits for split in EVAL)

    @property
    def is_conflict(self) -> bool:
        """True if the copies have different classes or annotations."""
        return len(set(self.classes)) > 1 or self.annotations_differ

    def to_dict(self) -> dict[str, object]:
        """Return the group as an object of duplicates.jsonl."""
        values = {name: value for name, value in asdict(self).items() if name != "annotations_differ"}
        return {**values, "leak": self.is_leak, "conflict": self.is_conflict}


def find_duplicates(rows: Iterable[tuple[str, Path]], classes: tuple[str, ...]) -> list[Duplicate]:
    """Return the duplicates among the rows of these (split, rows file) pairs, in order of their first keys.

    Rows are sorted on disk, so memory grows with the number of duplicates, not of rows.
    """
    with closing(sqlite3.connect("")) as db:
        db.execute("CREATE TABLE row(pixels BLOB, file BLOB, key TEXT, split TEXT, labels TEXT, annotation TEXT)")
        db.executemany("INSERT INTO row VALUES(?, ?, ?, ?, ?, ?)", _read(rows))
        db.execute("CREATE INDEX by_pixels ON row(pixels)")
        query = (
            "SELECT * FROM row WHERE pixels IN (SELECT pixels FROM row GROUP BY pixels HAVING count(*) > 1) "
            "ORDER BY pixels, key"
        )
        groups = (list(group) for _, group in groupby(db.execute(query), key=lambda row: row[0]))
        return sorted((_duplicate(group, classes) for group in groups), key=lambda duplicate: duplicate.keys)


_Row = tuple[bytes, bytes, str, str, str, str]  # pixels, file, key, split, labels as JSON, annotation


def _read(rows: Iterable[tuple[str, Path]]) -> Iterator[_Row]:
    for split, path in rows:
        for row in noted_rows(path):
            labels = json.dumps(row.label if isinstance(row.label, list) else [row.label])
            yield bytes.fromhex(row.pixels), bytes.fromhex(row.file), row.key, split, labels, row.annotation


def _duplicate(group: list[_Row], classes: tuple[str, ...]) -> Duplicate:
    return Duplicate(
        kind="bytes" if len({row[1] for row in group}) == 1 else "pixels",
        keys=tuple(row[2] for row in group),
        splits=tuple(row[3] for row in group),
        classes=tuple(", ".join(classes[label] for label in json.loads(row[4])) for row in group),
        annotations_differ=len({row[5] for row in group}) > 1,
    )


def count(duplicates: Iterable[Duplicate]) -> dict[str, int]:
    """Return the numbers of groups, leaks and conflicts."""
    counts = Counter({"groups": 0, "leaks": 0, "conflicts": 0})
    for duplicate in duplicates:
        counts.update({"groups": 1, "leaks": duplicate.is_leak, "conflicts": duplicate.is_conflict})
    return dict(counts)


def leaks_to_drop(duplicates: Iterable[Duplicate]) -> Excluded:
    """Return the train copies of images that are in val or test, to be excluded."""
    dropped: Excluded = {}
    for duplicate in duplicates:
        if not duplicate.is_leak:
            continue
        original = next(key for key, split in zip(duplicate.keys, duplicate.splits, strict=True) if split in EVAL)
        for key, split in zip(duplicate.keys, duplicate.splits, strict=True):
            if split == "train":
                dropped[key] = ("duplicate", f"the same {duplicate.kind} as {original} in val or test")
    return dropped
