"""Parse tar headers: v7, ustar, pax and GNU. One header is in memory at a time."""

from collections.abc import Iterator
from typing import NamedTuple

from dataprep.sources.archives.member import FILE, FOLDER, HARD_LINK, LINK, OTHER, Gap, Member, Remark
from dataprep.sources.archives.reading import Reader

BLOCK = 512
_ZEROS = bytes(BLOCK)
_PIECE = 64 << 10
_LONGEST_NAME = 1 << 20  # bytes of a pax header or long name; a larger one is damage
_LARGEST = 1 << 60  # bytes of a member
_KINDS = {b"\0": FILE, b"0": FILE, b"7": FILE, b"1": HARD_LINK, b"2": LINK, b"5": FOLDER}
_DEVICES = {b"3": "a device", b"4": "a device", b"6": "a FIFO"}
_WITHOUT_DATA = b"123456"
_SKIPPED = b"VD"  # volume label, folder listing of an incremental backup


class _Header(NamedTuple):
    name: bytes
    size: int
    type: bytes
    target: bytes
    more: bool  # a GNU sparse header that continues in the next block


class _Extended:
    """What extended headers say about the next member, and global pax headers about all that follow."""

    def __init__(self) -> None:
        self._all: dict[bytes, bytes] = {}
        self._next: dict[bytes, bytes] = {}

    def add(self, kind: bytes, data: bytes) -> None:
        if kind in b"LK":
            self._next[b"path" if kind == b"L" else b"linkpath"] = data.split(b"\0", 1)[0]
        else:
            (self._all if kind == b"g" else self._next).update(_pax_records(data))

    def take(self) -> dict[bytes, bytes]:
        """Return the records of the next member."""
        records = {**self._all, **self._next} if self._next or self._all else {}
        self._next = {}
        return records


def is_tar(head: bytes) -> bool:
    """Return True if `head` starts with a valid tar header, or with an empty block."""
    return len(head) >= BLOCK and (head[:BLOCK] == _ZEROS or _header(head[:BLOCK]) is not None)


def tar_members(
    reader: Reader, name: str, start: int = 0, length: int | None = None
) -> Iterator[Member | Gap | Remark]:
    """Yield the members of a tar, and its damage. `name` is used in messages.

    The tar is the whole file, or `length` bytes from `start`, as in a tar of tars. Headers after an end-of-archive
    marker are read too: the tar may be several, one after another.
    """
    end = reader.size if length is None else start + length
    if end is not None and reader.size is not None:
        end = min(end, reader.size)
    at, extended, marked = start, _Extended(), False
    while True:
        block = reader.read_at(at, BLOCK if end is None else max(0, min(BLOCK, end - at)))
        if len(block) < BLOCK:
            if block.strip(b"\0") or not marked:
                yield Remark(_cut(name, at + len(block) - start, len(block)))
            return
        if block == _ZEROS:
            at, marked = _skip_zeros(reader, at, end), True
            continue
        header = _header(block)
        if header is None:
            following = _next_header(reader, at + BLOCK, end)
            if marked and following is None:
                yield Remark(f"{name} has other data after its end, from byte {at - start}, which is not read")
                return
            yield Gap(at - start, _damaged(name, at - start, following, start))
            if following is None:
                return
            at, extended = following, _Extended()
            continue
        if marked:
            yield Remark(f"{name} consists of several tars, one after another; all are read")
            marked = False
        at += BLOCK
        if header.type in b"LKxXg":
            data = reader.read_at(at, header.size) if header.size <= _LONGEST_NAME else b""
            extended.add(header.type, data)
            at += _padded(header.size)
            continue
        member, at = _member(reader, header, extended.take(), at)
        if header.type not in _SKIPPED:
            yield member if end is None or at <= end else _complete(member, end, name)


def _member(reader: Reader, header: _Header, pax: dict[bytes, bytes], at: int) -> tuple[Member, int]:
    """Return a member whose data starts at `at`, and the offset of the next header."""
    name, target, size = header.name, header.target, header.size
    if pax:
        name, target = pax.get(b"path", name), pax.get(b"linkpath", target)
        if (given := pax.get(b"size", b"")).isdigit() and len(given) < 19:
            size = min(int(given), _LARGEST)
    kind = _KINDS.get(header.type, FILE)
    problem = None
    more = header.more
    while more:
        more = reader.read_at(at, BLOCK)[504:505] not in (b"\0", b"")
        at += BLOCK
    if header.type == b"S" or (pax and any(key.startswith(b"GNU.sparse.") for key in pax)):
        name = pax.get(b"GNU.sparse.name", name)
        problem = ("unsupported_format", "it is stored as a sparse file; pack it without --sparse")
    elif header.type in _DEVICES:
        kind, problem = OTHER, ("not_a_regular_file", _DEVICES[header.type])
    elif header.type == b"M":
        problem = ("truncated", "its begin is in another volume of the tar")
    elif kind == FILE and name.endswith(b"/"):
        kind = FOLDER
    data = 0 if header.type in _WITHOUT_DATA else size
    return Member(name, kind, at, size, size, target=target, problem=problem), at + _padded(data)


def _complete(member: Member, end: int, name: str) -> Member:
    """Return the member, with a problem if the tar ends before its data does."""
    if member.kind != FILE or member.offset + member.length <= end:
        return member
    present = max(0, end - member.offset)
    detail = f"{present} of its {member.size} bytes are in {name}, which is cut"
    return member._replace(problem=("truncated", detail))


def _cut(name: str, at: int, present: int) -> str:
    where = f"in a header, at byte {at}" if present else f"at byte {at}, without an end-of-archive marker"
    return f"{name} ends {where}; it may be cut, and members that followed are unknown"


def _damaged(name: str, at: int, following: int | None, start: int) -> str:
    after = "no other header follows" if following is None else f"reading continues at byte {following - start}"
    return f"the header at byte {at} of {name} is damaged; {after}"


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _skip_zeros(reader: Reader, at: int, end: int | None) -> int:
    """Return the offset of the next block that is not zero, or the end."""
    while data := reader.read_at(at, _PIECE if end is None else max(0, min(_PIECE, end - at))):
        used = len(data.rstrip(b"\0")) and len(data) - len(data.lstrip(b"\0"))
        if used or data[0]:
            return at + used // BLOCK * BLOCK
        at += len(data)
    return at


def _next_header(reader: Reader, at: int, end: int | None) -> int | None:
    """Return the offset of the next valid header; None if there is none."""
    while data := reader.read_at(at, _PIECE if end is None else max(0, min(_PIECE, end - at))):
        for offset in range(0, len(data) - BLOCK + 1, BLOCK):
            block = data[offset : offset + BLOCK]
            if block[257:262] == b"ustar" and _header(block) is not None:
                return at + offset
        at += len(data) // BLOCK * BLOCK or len(data)
    return None


def _header(block: bytes) -> _Header | None:
    """Return a header; None if its checksum or a number is wrong."""
    checksum, size = _number(block[148:156]), _number(block[124:136])
    if checksum is None or size is None or not 0 <= size <= _LARGEST or not _matches(block, checksum):
        return None
    name = block[:100].split(b"\0", 1)[0]
    type_ = block[156:157]
    if block[257:263] == b"ustar\0" and block[345] and type_ not in b"LK":
        name = block[345:500].split(b"\0", 1)[0] + b"/" + name
    return _Header(name, size, type_, block[157:257].split(b"\0", 1)[0], type_ == b"S" and block[482] not in (0, 48))


def _matches(block: bytes, checksum: int) -> bool:
    total = sum(block) - sum(block[148:156]) + 8 * 32
    if checksum == total:
        return True
    high = sum(byte > 127 for byte in block) - sum(byte > 127 for byte in block[148:156])
    return checksum == total - 256 * high  # old programs add signed bytes


def _number(field: bytes) -> int | None:
    """Return an octal number, or the binary number of GNU tar; None if it is neither."""
    if field[0] & 0x80:
        value = int.from_bytes(field, "big") & ((1 << (8 * len(field) - 1)) - 1)
        return value if not field[0] & 0x40 else -1
    digits = field.split(b"\0", 1)[0].strip()
    try:
        return int(digits, 8) if digits else 0
    except ValueError:
        return None


def _pax_records(data: bytes) -> dict[bytes, bytes]:
    """Return the records `<length> <key>=<value>\\n` of a pax header, up to the first invalid one."""
    records = {}
    at = 0
    while at < len(data):
        number, space, _ = data[at : at + 20].partition(b" ")
        if not space or not number.isdigit() or int(number) < len(number) + 4:
            break
        record = data[at + len(number) + 1 : at + int(number)]
        key, equals, value = record.partition(b"=")
        if not equals or not value.endswith(b"\n"):
            break
        records[key] = value[:-1]
        at += int(number)
    return records
