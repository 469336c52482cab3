"""Pictures that are in a set more than once: the same file bytes, or the same pixels."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from dataprep.build.receipt import Excluded, noted_rows

EVAL = ("val", "test")


@dataclass(frozen=True)
class Duplicate:
    """Rows that hold one picture, in key order; `kind` is bytes when the files are equal, else pixels."""

    kind: str
    keys: tuple[str, ...]
    splits: tuple[str, ...]
    classes: tuple[str, ...]

    @property
    def is_leak(self) -> bool:
        """Whether a picture to be evaluated on is trained on too."""
        return "train" in self.splits and any(split in self.splits for split in EVAL)

    @property
    def is_conflict(self) -> bool:
        """Whether one picture has two classes."""
        return len(set(self.classes)) > 1

    def to_dict(self) -> dict[str, Any]:
        """The duplicate as a line of duplicates.jsonl holds it."""
        return {**asdict(self), "leak": self.is_leak, "conflict": self.is_conflict}


def find_duplicates(rows: Iterable[tuple[str, Path]], classes: tuple[str, ...]) -> list[Duplicate]:
    """The duplicates among the rows of the given (split, rows file), in the order of their first keys.

    Rows are sorted on disk, so memory does not grow with them, only with the duplicates found.
    """
    with closing(sqlite3.connect("")) as db:
        db.execute("CREATE TABLE row(pixels BLOB, file BLOB, key TEXT, split TEXT, label INT)")
        db.executemany("INSERT INTO row VALUES(?, ?, ?, ?, ?)", _read(rows))
        db.execute("CREATE INDEX by_pixels ON row(pixels)")
        query = (
            "SELECT * FROM row WHERE pixels IN (SELECT pixels FROM row GROUP BY pixels HAVING count(*) > 1) "
            "ORDER BY pixels, key"
        )
        groups = (list(group) for _, group in groupby(db.execute(query), key=lambda row: row[0]))
        return sorted((_duplicate(group, classes) for group in groups), key=lambda duplicate: duplicate.keys)


def _read(rows: Iterable[tuple[str, Path]]) -> Iterator[tuple[bytes, bytes, str, str, int]]:
    for split, path in rows:
        for row in noted_rows(path):
            yield bytes.fromhex(row.pixels), bytes.fromhex(row.file), row.key, split, row.label


def _duplicate(group: list[tuple[bytes, bytes, str, str, int]], classes: tuple[str, ...]) -> Duplicate:
    return Duplicate(
        kind="bytes" if len({row[1] for row in group}) == 1 else "pixels",
        keys=tuple(row[2] for row in group),
        splits=tuple(row[3] for row in group),
        classes=tuple(classes[row[4]] for row in group),
    )


def count(duplicates: Iterable[Duplicate]) -> dict[str, int]:
    """Groups of equal pictures; of these, leaks and conflicts."""
    counts = Counter({"groups": 0, "leaks": 0, "conflicts": 0})
    for duplicate in duplicates:
        counts.update({"groups": 1, "leaks": duplicate.is_leak, "conflicts": duplicate.is_conflict})
    return dict(counts)


def leaks_to_drop(duplicates: Iterable[Duplicate]) -> Excluded:
    """The train copies of pictures that are in val or test: what is evaluated on stays as it is."""
    dropped: Excluded = {}
    for duplicate in duplicates:
        if not duplicate.is_leak:
            continue
        kept = next(key for key, split in zip(duplicate.keys, duplicate.splits, strict=True) if split in EVAL)
        for key, split in zip(duplicate.keys, duplicate.splits, strict=True):
            if split == "train":
                dropped[key] = ("duplicate", f"the same {duplicate.kind} as {kept}, which is not for training")
    return dropped
