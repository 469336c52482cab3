"""The entries that a scan finds, rejects, and the conversion between paths and keys."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

NotCopied = dict[str, str]  # key -> problem
Annotation = Mapping[str, object]  # JSON values by name, see docs/sources.md
StepProgress = Callable[[str, int, int], None]  # called with a step, its units done, and their total

_ESCAPE = re.compile(rb"%(25|[89A-F][0-9A-F])")

_LATEST_NS = (1 << 63) - 1


class Container(NamedTuple):
    """A file that contains images: its path below the folder of SOURCE (or absolute), size in bytes and time.

    The path of a container that was unpacked by the scan starts with IN_WORK and is relative to .work.
    """

    path: str
    size: int
    mtime_ns: int


IN_WORK = "\0work/"  # no path contains a NUL character
UNPACKED = "unpacked"  # folder in .work for containers that the scan unpacks; it is removed when the dataset is sealed


class ByteRange(NamedTuple):
    """The place of an image in a container: `length` bytes from `offset`, to be decoded by `codec`.

    `codec` is a key of read_ahead.CODECS. `checksum` is the CRC-32 of the decoded bytes; None if the container has
    none.
    """

    container: Container
    offset: int
    length: int
    codec: str = "stored"
    checksum: int | None = None


Place = ByteRange | str | None


class Item(NamedTuple):
    """An image that will become a row. `size` is in bytes, after decoding of a byte range.

    `place` is None for the file at key_to_path(key) below SOURCE, a string for a file at another path below the folder
    of SOURCE, or a byte range of a container. `mtime_ns` is that of the file or container. `class_name` is empty if
    the image has no class or several. `split` is None if the plan assigns it. Images of the same `group` get the same
    split. `annotation` is what the record kind needs besides the class, such as boxes, and additional fields.
    """

    key: str
    class_name: str
    split: str | None
    size: int
    mtime_ns: int
    place: Place = None
    annotation: Annotation | None = None
    group: str | None = None


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
class FoundClass:
    """A class, such as a class folder; it may have no image.

    Classes are sorted by `order` if the source gives one, otherwise by name.
    """

    class_name: str
    split: str | None
    order: int | None = None


ScanEntry = Item | Reject | Ignored | FoundClass | ClosedFolder | Notice


def decode_name(name: bytes) -> str:
    """Decode a name or path on disk as UTF-8. Other bytes become surrogates."""
    return name.decode("utf-8", "surrogateescape")


def encode_name(name: str) -> bytes:
    """Return the bytes on disk of a name or path that decode_name returned."""
    return name.encode("utf-8", "surrogateescape")


def path_to_column(path: str) -> str | bytes:
    """Return a path as SQLite can store it: as text, or as bytes if it is not UTF-8."""
    return path if path.isascii() or not any("\udc80" <= char <= "\udcff" for char in path) else encode_name(path)


def column_to_path(value: str | bytes) -> str:
    """Return the path of path_to_column."""
    return decode_name(value) if isinstance(value, bytes) else value


def portable_path(path: str | os.PathLike[str]) -> str:
    """Return a path of this process as decode_name would return it, independent of the locale."""
    return decode_name(os.fsencode(path))


def source_path(source: str, key: str) -> bytes:
    """Return the path of the file with this key. `source` is SOURCE as returned by portable_path."""
    return os.path.join(encode_name(source), encode_name(key_to_path(key)))


def item_path(base: str, key: str, place: Place) -> bytes:
    """Return the path of the file or container of an item. `base` is the folder of SOURCE."""
    if place is None:
        return source_path(base, key)
    path = place if isinstance(place, str) else place.container.path
    return os.path.join(encode_name(base), encode_name(path))


def key_to_path(key: str) -> str:
    """Return the relative path with this key. Bytes that are not UTF-8 are surrogates."""
    if "%" not in key:
        return key
    return decode_name(_ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), key.encode()))
