"""What a scan finds, and what becomes of it."""

import os
from dataclasses import dataclass
from typing import NamedTuple

_LATEST_NS = (1 << 63) - 1


class Item(NamedTuple):
    """A file that is to become a row, at keys.key_to_path(key) below the source.

    `split` is None where the layout leaves it to the plan. `size` is in bytes.
    """

    key: str
    class_name: str
    split: str | None
    size: int
    mtime_ns: int


def size_and_time(found: os.stat_result) -> tuple[int, int]:
    """Size in bytes and time of change in nanoseconds, by which a file is known again.

    SQLite holds 64 bits, which end in the year 2262; times beyond are all taken for the last or the first moment.
    """
    return found.st_size, max(-_LATEST_NS, min(found.st_mtime_ns, _LATEST_NS))


@dataclass(frozen=True, slots=True)
class Reject:
    """A file that was refused: a reason code, and in `detail` what a person needs to mend it. `size` in bytes."""

    key: str
    reason: str
    detail: str
    size: int = 0

    def to_dict(self) -> dict[str, str | int]:
        """The reject as a line of rejects.jsonl holds it."""
        return {"key": self.key, "reason": self.reason, "detail": self.detail, "size": self.size}


@dataclass(frozen=True, slots=True)
class Ignored:
    """A file or folder that no one would want in a data set, and the rule that says so."""

    key: str
    rule: str


@dataclass(frozen=True, slots=True)
class ClosedFolder:
    """A folder whose files cannot be known: it, or the rest of it, could not be listed. `errno` says why."""

    key: str
    errno: int
    detail: str


@dataclass(frozen=True, slots=True)
class Notice:
    """What a person should know about SOURCE as a whole: a sentence."""

    text: str


@dataclass(frozen=True, slots=True)
class Folder:
    """A class folder, named even when it turns out to hold no file."""

    class_name: str
    split: str | None


Found = Item | Reject | Ignored | Folder | ClosedFolder | Notice
