"""The entries that a scan finds, rejects, and the conversion between paths and keys."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

NotCopied = dict[str, str]  # key -> problem
StepProgress = Callable[[str, int, int], None]  # called with a step, its units done, and their total

_ESCAPE = re.compile(rb"%(25|[89A-F][0-9A-F])")

_LATEST_NS = (1 << 63) - 1


class Item(NamedTuple):
    """A file that will become a row, at key_to_path(key) below SOURCE. `size` is in bytes.

    `split` is None if the plan assigns it.
    """

    key: str
    class_name: str
    split: str | None
    size: int
    mtime_ns: int


def size_and_time(stat: os.stat_result) -> tuple[int, int]:
    """Return size in bytes and modification time in nanoseconds. Together they identify the content of a file.

    Times are clipped to the 64-bit integers of SQLite (up to the year 2262).
    """
    return stat.st_size, max(-_LATEST_NS, min(stat.st_mtime_ns, _LATEST_NS))


@dataclass(frozen=True, slots=True)
class Reject:
    """A rejected file: a reason code, and a `detail` that tells the user what to fix. `size` is in bytes."""

    key: str
    reason: str
    detail: str
    size: int = 0

    def to_dict(self) -> dict[str, str | int]:
        """Return the reject as an object of rejects.jsonl."""
        return {"key": self.key, "reason": self.reason, "detail": self.detail, "size": self.size}


@dataclass(frozen=True, slots=True)
class Ignored:
    """A file or folder that is ignored, and the rule that matched."""

    key: str
    rule: str


@dataclass(frozen=True, slots=True)
class ClosedFolder:
    """A folder that could not be listed completely, with the error."""

    key: str
    errno: int
    detail: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning about SOURCE as a whole: a sentence."""

    text: str


@dataclass(frozen=True, slots=True)
class Folder:
    """A class folder; it may contain no file."""

    class_name: str
    split: str | None


ScanEntry = Item | Reject | Ignored | Folder | ClosedFolder | Notice


def decode_name(name: bytes) -> str:
    """Decode a name or path on disk as UTF-8. Other bytes become surrogates."""
    return name.decode("utf-8", "surrogateescape")


def encode_name(name: str) -> bytes:
    """Return the bytes on disk of a name or path that decode_name returned."""
    return name.encode("utf-8", "surrogateescape")


def portable_path(path: str | os.PathLike[str]) -> str:
    """Return a path of this process as decode_name would return it, independent of the locale."""
    return decode_name(os.fsencode(path))


def source_path(source: str, key: str) -> bytes:
    """Return the path of the file with this key. `source` is SOURCE as returned by portable_path."""
    return os.path.join(encode_name(source), encode_name(key_to_path(key)))


def key_to_path(key: str) -> str:
    """Return the relative path with this key. Bytes that are not UTF-8 are surrogates."""
    if "%" not in key:
        return key
    return decode_name(_ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), key.encode()))
