"""What a scan finds, and what becomes of it."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from schemas.names import escape_surrogates, path_to_key, printable

NotCopied = dict[str, str]  # key -> problem
StepProgress = Callable[[str, int, int], None]  # called with a step, its units done, and their total

__all__ = ["escape_surrogates", "path_to_key", "printable"]
_ESCAPE = re.compile(rb"%(25|[89A-F][0-9A-F])")

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


def decode_name(name: bytes) -> str:
    """A name or path on disk as text: UTF-8, with surrogates for other bytes."""
    return name.decode("utf-8", "surrogateescape")


def encode_name(name: str) -> bytes:
    """The bytes on disk of a name or path that decode_name gave."""
    return name.encode("utf-8", "surrogateescape")


def portable_path(path: str | os.PathLike[str]) -> str:
    """A path of this process, which Python decoded by the locale, as decode_name gives it in every locale."""
    return decode_name(os.fsencode(path))


def source_path(source: str, key: str) -> bytes:
    """Where the file of `key` is on disk; `source` is SOURCE as portable_path gives it."""
    return os.path.join(encode_name(source), encode_name(key_to_path(key)))


def key_to_path(key: str) -> str:
    """The relative path that has this key, with surrogates for bytes that are not UTF-8."""
    if "%" not in key:
        return key
    return decode_name(_ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), key.encode()))
