"""Walks the directories of a TIFF: tells a camera raw file, and a thumbnail in the place of the picture."""

import struct
from collections.abc import Iterator

from dataprep.images.formats.chain import Chain
from dataprep.images.formats.tiff.strips import damaged_strip, heard_damage, reaches_behind

TIFF_MAGICS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"II\0*", b"MM*\0", b"II\0+", b"MM+\0")
Directory = dict[int, tuple[int, ...]]

SUBFILE, OLD_SUBFILE, WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, SUB_DIRECTORIES = (
    254, 255, 256, 257, 258, 259, 262, 330,
)  # fmt: skip
_DNG_VERSION = 50706
_SAMPLE_FORMAT = 339
_SENSOR = frozenset({32803, 34892})  # photometric: colour filter array, linear raw
# Packed sensor values of Sony, Nikon, Kodak, Samsung, Pentax and DNG's lossy kind.
_SENSOR_CODINGS = frozenset({32767, 32770, 34713, 65000, 65535, 34892})
_WHOLE_NUMBERS = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}  # bytes to 64-bit, and offsets
_MAX_DIRECTORIES = 64
_UNREADABLE = (struct.error, ValueError, OverflowError)


def tiff_chain(data: bytes, headers_only: bool = False) -> Chain:
    """Check that the first directory holds a picture whose strips or tiles are whole.

    Raw sensor values and a thumbnail of another picture are `unsupported`.
    """
    directories = list(_directories(data))
    if not directories:
        return Chain()  # Pillow says what is wrong with it
    first, others = directories[0], directories[1:]
    if unread := _unread(data, first, others):
        return Chain(f"it is {unread}", unsupported=True)
    deep = max(first.get(BITS, (1,))) > 8
    problem = None if headers_only else damaged_strip(data, first)
    return Chain(problem, checksum=not reaches_behind(data, first), deep=deep)


def heard_tiff_damage(data: bytes) -> tuple[str, str] | None:
    """Reason, and what libtiff says of damage in the first picture; decodes fax and JPEG pictures for it."""
    first = next(_directories(data), None)
    said = heard_damage(data, first) if first else None
    return ("truncated" if reaches_behind(data, first or {}) else "corrupt", said) if said else None


def describe_tiff(data: bytes) -> str | None:
    """How the first picture of a TIFF is stored, for one that Pillow has no name for; None without a directory."""
    first = next(_directories(data), None)
    if first is None or not {WIDTH, HEIGHT} <= first.keys():
        return None
    bits = "x".join(map(str, first.get(BITS, (1,))))
    kinds = [f"photometric {first[PHOTOMETRIC][0]}"] if first.get(PHOTOMETRIC) else []
    kinds += [f"sample format {first[_SAMPLE_FORMAT][0]}"] if first.get(_SAMPLE_FORMAT) else []
    kinds += [f"compression {first[COMPRESSION][0]}"] if first.get(COMPRESSION) else []
    return f"a TIFF of {bits} bits per pixel ({', '.join(kinds)})"


def _unread(data: bytes, first: Directory, others: list[Directory]) -> str | None:
    raw = data[8:10] == b"CR" or data[8:12] in (b"IIII", b"MMMM") or _DNG_VERSION in first
    if raw or any(_is_sensor(directory, directory is first) for directory in (first, *others)):
        return "camera raw; develop it to JPEG, PNG or TIFF first"
    largest = max(others, key=_pixels, default=first)
    reduced = bool(first.get(SUBFILE, (0,))[0] & 1) or first.get(OLD_SUBFILE) == (2,)
    # Without the flag: a sub-picture is a reduced copy of its parent, so a much larger one makes a thumbnail of it.
    if _pixels(largest) > (1 if reduced else 4) * _pixels(first) and (reduced or largest.get(_IS_SUB)):
        width, height = (largest[tag][0] for tag in (WIDTH, HEIGHT))
        return f"a TIFF that begins with a thumbnail of its picture of {width} x {height} pixels; save it again without"
    return None


_IS_SUB = -1  # a mark of ours, no tag: the directory hangs below the first


def _is_sensor(directory: Directory, is_first: bool) -> bool:
    if directory.get(PHOTOMETRIC, (0,))[0] in _SENSOR:
        return True
    return not is_first and directory.get(COMPRESSION, (1,))[0] in _SENSOR_CODINGS


def _pixels(directory: Directory) -> int:
    sides = [directory.get(tag, (0,)) for tag in (WIDTH, HEIGHT)]
    return sides[0][0] * sides[1][0]


def _directories(data: bytes) -> Iterator[Directory]:
    """The first directory, those below it, and those that follow in its chain; as far as they can be read."""
    try:
        reader = _Reader(data)
        first, following = reader.directory(reader.start)
    except _UNREADABLE:
        return
    yield first
    seen = {reader.start}
    queue = [(offset, True) for offset in first.get(SUB_DIRECTORIES, ())] + [(following, False)]
    while queue and len(seen) < _MAX_DIRECTORIES:
        offset, is_sub = queue.pop(0)
        if offset == 0 or offset in seen:
            continue
        seen.add(offset)
        try:
            found, following = reader.directory(offset)
        except _UNREADABLE:
            continue
        yield found | ({_IS_SUB: (1,)} if is_sub else {})
        queue += [] if is_sub else [(following, False)]


class _Reader:
    """Reads directories of whole numbers; TIFF has 4-byte offsets, BigTIFF 8-byte ones."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._order = "<" if data[:2] == b"II" else ">"
        self._big = b"+" in data[2:4]
        (self.start,) = self._unpack("Q" if self._big else "I", 8 if self._big else 4)

    def _unpack(self, fields: str, at: int) -> tuple[int, ...]:
        return struct.unpack_from(self._order + fields, self._data, at)

    def directory(self, at: int) -> tuple[Directory, int]:
        """The tags of the directory at this offset, and where the next one is (0: none); raises struct.error."""
        count_kind, entry_kind, place = ("Q", "HHQ", 8) if self._big else ("H", "HHI", 4)
        (entries,) = self._unpack(count_kind, at)
        at += struct.calcsize("<" + count_kind)
        tags: Directory = {}
        for _ in range(entries):
            tag, kind, count = self._unpack(entry_kind, at)
            at += struct.calcsize("<" + entry_kind)
            if kind in _WHOLE_NUMBERS and count:
                tags.setdefault(tag, self._values(_WHOLE_NUMBERS[kind], count, at, place))
            at += place
        try:
            (following,) = self._unpack("Q" if self._big else "I", at)
        except struct.error:
            following = 0
        return tags, following

    def _values(self, kind: str, count: int, at: int, place: int) -> tuple[int, ...]:
        size = count * struct.calcsize("<" + kind)
        if size > place:
            (at,) = self._unpack("Q" if self._big else "I", at)
        if at + size > len(self._data):
            raise ValueError("a tag's values lie behind the end of the file")
        return self._unpack(f"{count}{kind}", at)
