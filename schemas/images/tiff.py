"""Read the directories of a TIFF and recognise unsupported kinds: camera raw, and files that start with a thumbnail."""

import struct
from collections.abc import Iterator, Sequence

TIFF_MAGICS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"II\0*", b"MM*\0", b"II\0+", b"MM+\0")
Directory = dict[int, tuple[int, ...]]  # tag -> values, of whole-number tags

WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, SAMPLE_FORMAT = 256, 257, 258, 259, 262, 339
_SUBFILE, _OLD_SUBFILE, _SUB_DIRECTORIES, _DNG_VERSION = 254, 255, 330, 50706
_IS_SUB = -1  # not a tag: marks directories below the first
_SENSOR = frozenset({32803, 34892})  # photometric: colour filter array, linear raw
# Packed sensor values of Sony, Nikon, Kodak, Samsung, Pentax and DNG's lossy kind.
_SENSOR_CODINGS = frozenset({32767, 32770, 34713, 65000, 65535, 34892})
_WHOLE_NUMBERS = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}  # bytes to 64-bit, and offsets
_MAX_DIRECTORIES = 64
_UNREADABLE = (struct.error, ValueError, OverflowError)


def unsupported_kind(data: bytes, directories: Sequence[Directory]) -> str | None:
    """Return the name of an unsupported kind of TIFF; None if the first directory is the image."""
    if not directories:
        return None
    first, others = directories[0], directories[1:]
    raw = data[8:10] == b"CR" or data[8:12] in (b"IIII", b"MMMM") or _DNG_VERSION in first
    if raw or any(_is_sensor(directory, directory is first) for directory in directories):
        return "camera raw; develop it to JPEG, PNG or TIFF first"
    largest = max(others, key=_pixels, default=first)
    reduced = bool(first.get(_SUBFILE, (0,))[0] & 1) or first.get(_OLD_SUBFILE) == (2,)
    # Without the flag: a sub-image is a reduced copy of its parent, so the parent of a much larger sub-image is a
    # thumbnail.
    if _pixels(largest) > (1 if reduced else 4) * _pixels(first) and (reduced or largest.get(_IS_SUB)):
        width, height = (largest[tag][0] for tag in (WIDTH, HEIGHT))
        return f"a TIFF that starts with a thumbnail of its {width} x {height} image; save it without the thumbnail"
    return None


def _is_sensor(directory: Directory, is_first: bool) -> bool:
    if directory.get(PHOTOMETRIC, (0,))[0] in _SENSOR:
        return True
    return not is_first and directory.get(COMPRESSION, (1,))[0] in _SENSOR_CODINGS


def _pixels(directory: Directory) -> int:
    sides = [directory.get(tag, (0,)) for tag in (WIDTH, HEIGHT)]
    return sides[0][0] * sides[1][0]


def read_directories(data: bytes) -> Iterator[Directory]:
    """Yield the readable directories: the first, its sub-directories, and the directories after it in the chain."""
    try:
        reader = _Reader(data)
        first, following = reader.directory(reader.start)
    except _UNREADABLE:
        return
    yield first
    visited = {reader.start}
    queue = [(offset, True) for offset in first.get(_SUB_DIRECTORIES, ())] + [(following, False)]
    while queue and len(visited) < _MAX_DIRECTORIES:
        offset, is_sub = queue.pop(0)
        if offset == 0 or offset in visited:
            continue
        visited.add(offset)
        try:
            directory, following = reader.directory(offset)
        except _UNREADABLE:
            continue
        yield directory | ({_IS_SUB: (1,)} if is_sub else {})
        queue += [] if is_sub else [(following, False)]


class _Reader:
    """Reads the integer tags of directories. TIFF has 4-byte offsets, BigTIFF has 8-byte offsets."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._order = "<" if data[:2] == b"II" else ">"
        self._big = b"+" in data[2:4]
        (self.start,) = self._unpack("Q" if self._big else "I", 8 if self._big else 4)

    def _unpack(self, fields: str, at: int) -> tuple[int, ...]:
        return struct.unpack_from(self._order + fields, self._data, at)

    def directory(self, at: int) -> tuple[Directory, int]:
        """Return the tags of the directory at this offset, and the offset of the next one (0: none).

        Raises struct.error and ValueError for a directory that cannot be read.
        """
        count_kind, entry_kind, value_bytes = ("Q", "HHQ", 8) if self._big else ("H", "HHI", 4)
        (entries,) = self._unpack(count_kind, at)
        at += struct.calcsize("<" + count_kind)
        tags: Directory = {}
        for _ in range(entries):
            tag, kind, count = self._unpack(entry_kind, at)
            at += struct.calcsize("<" + entry_kind)
            if kind in _WHOLE_NUMBERS and count:
                tags.setdefault(tag, self._values(_WHOLE_NUMBERS[kind], count, at, value_bytes))
            at += value_bytes
        try:
            (following,) = self._unpack("Q" if self._big else "I", at)
        except struct.error:
            following = 0
        return tags, following

    def _values(self, kind: str, count: int, at: int, value_bytes: int) -> tuple[int, ...]:
        size = count * struct.calcsize("<" + kind)
        if size > value_bytes:
            (at,) = self._unpack("Q" if self._big else "I", at)
        if at + size > len(self._data):
            raise ValueError("the values of a tag are beyond the end of the file")
        return self._unpack(f"{count}{kind}", at)
