"""Parse the central directory of a zip. One entry is in memory at a time."""

import stat
import struct
from collections.abc import Iterator
from typing import NamedTuple

from dataprep.errors import DataRejected
from dataprep.sources.archives.member import FILE, FOLDER, LINK, OTHER, Gap, Member
from dataprep.sources.archives.reading import Reader

_ENTRY = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_END_SEARCH = _END.size + 0xFFFF  # a comment may follow
_CODECS = {0: "stored", 8: "deflate"}
_METHODS = {1: "shrink", 6: "implode", 9: "Deflate64", 12: "bzip2", 14: "LZMA", 93: "Zstandard", 95: "xz", 99: "AES"}
_UNIX, _DOS, _NTFS = 3, 0, 11
_UTF8, _ENCRYPTED = 1 << 11, 1
_FULL, _FULL16 = 0xFFFFFFFF, 0xFFFF  # the value is in the zip64 field
_LONGEST_TARGET = 4096  # bytes of the path in a symbolic link


class _Directory(NamedTuple):
    """Where the central directory is. Offsets in it are relative to `base`: other data may precede the zip."""

    start: int
    size: int
    entries: int
    base: int


def is_zip(head: bytes) -> bool:
    """Return True if a file starts as a zip does."""
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def zip_members(reader: Reader, name: str) -> Iterator[Member | Gap]:
    """Yield the members of a zip in the order of its central directory, and its damage.

    Raises DataRejected if there is no central directory: without it, the members are unknown.
    """
    directory = _find_directory(reader, name)
    at, end = directory.start, directory.start + directory.size
    number = 0
    while at < end:
        number += 1
        fixed = reader_slice(reader, at, _ENTRY.size, end)
        if len(fixed) < _ENTRY.size or not fixed.startswith(b"PK\x01\x02"):
            raise DataRejected(
                f"the central directory of {name} is damaged at entry {number} of {directory.entries}, so its "
                "members are unknown; copy or download the zip again, or repair it with `zip -FF`"
            )
        entry = _ENTRY.unpack(fixed)
        lengths = entry[10:13]
        rest = reader_slice(reader, at + _ENTRY.size, sum(lengths), end)
        at += _ENTRY.size + sum(lengths)
        yield _member(reader, entry, rest, directory.base, name)
    if (number - directory.entries) & _FULL16:  # programs without zip64 count modulo 65,536
        yield Gap(at, f"the central directory of {name} has {number} entries instead of {directory.entries}")


def reader_slice(reader: Reader, offset: int, count: int, end: int) -> bytes:
    """Return up to `count` bytes before `end`."""
    return reader.read_at(offset, max(0, min(count, end - offset)))


def _member(reader: Reader, entry: tuple[int, ...], rest: bytes, base: int, zip_name: str) -> Member:
    """Return the member of an entry; `rest` is its name, extra fields and comment."""
    (
        _,
        made_by,
        _,
        flags,
        method,
        _,
        _,
        checksum,
        packed,
        size,
        name_length,
        extra_length,
        _,
        disk,
        _,
        attributes,
        at,
    ) = entry
    raw, extra = rest[:name_length], _extra_fields(rest[name_length : name_length + extra_length])
    size, packed, at = _zip64(extra.get(1, b""), (size, packed, at))
    name = _name(raw, flags, made_by >> 8, extra.get(0x7075, b""))
    mode = attributes >> 16 if made_by >> 8 == _UNIX else 0
    kind = FOLDER if name.endswith(b"/") else LINK if stat.S_ISLNK(mode) else FILE
    if kind == FILE and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return Member(name, OTHER, problem=("not_a_regular_file", "a special file"))
    if kind == FOLDER:
        return Member(name, kind)
    member = Member(name, kind, 0, packed, size, _CODECS.get(method, ""), checksum)
    if flags & _ENCRYPTED:
        return member._replace(problem=("unsupported_format", "it is encrypted"))
    if not member.codec:
        method_name = _METHODS.get(method, f"method {method}")
        detail = f"it is compressed with {method_name}; pack it with deflate or stored"
        return member._replace(problem=("unsupported_format", detail))
    if disk not in (0, _FULL16):
        return member._replace(problem=("truncated", "it is in another part of a divided zip"))
    return _located(reader, member, base + at, raw, zip_name)


def _located(reader: Reader, member: Member, at: int, raw: bytes, zip_name: str) -> Member:
    """Return the member with the offset of its data, which its local header at `at` determines."""
    local = reader.read_at(at, _LOCAL.size + len(raw))
    if len(local) < _LOCAL.size or not local.startswith(b"PK\x03\x04") or local[_LOCAL.size :] != raw:
        detail = f"{zip_name} has no such member at byte {at}: its central directory is wrong"
        return member._replace(problem=("corrupt", detail))
    *_, name_length, extra_length = _LOCAL.unpack(local[: _LOCAL.size])
    member = member._replace(offset=at + _LOCAL.size + name_length + extra_length)
    if reader.size is not None and member.offset + member.length > reader.size:
        return member._replace(problem=("truncated", f"{zip_name} ends before its last byte"))
    if member.kind == LINK and member.codec == "stored" and member.length <= _LONGEST_TARGET:
        return member._replace(target=reader.read_at(member.offset, member.length))
    return member


def _name(raw: bytes, flags: int, made_by: int, unicode_path: bytes) -> bytes:
    """Return the name as UTF-8. Without a mark it is UTF-8 if it is valid as such, else cp437."""
    if len(unicode_path) > 5 and unicode_path[0] == 1:
        return unicode_path[5:]
    if not flags & _UTF8 and not raw.isascii():
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError:
            raw = raw.decode("cp437").encode()
    if made_by in (_DOS, _NTFS) and b"/" not in raw:
        raw = raw.replace(b"\\", b"/")
    return raw


def _extra_fields(data: bytes) -> dict[int, bytes]:
    fields: dict[int, bytes] = {}
    at = 0
    while at + 4 <= len(data):
        kind, length = struct.unpack_from("<2H", data, at)
        fields.setdefault(kind, data[at + 4 : at + 4 + length])
        at += 4 + length
    return fields


def _zip64(field: bytes, values: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return size, packed size and offset, read from the zip64 field if they do not fit 32 bits."""
    wide = []
    for value in values:
        if value == _FULL and len(field) >= 8:
            value, field = int.from_bytes(field[:8], "little") & (1 << 62) - 1, field[8:]
        wide.append(value)
    return wide[0], wide[1], wide[2]


def _find_directory(reader: Reader, name: str) -> _Directory:
    size = reader.size or 0
    tail_at = max(0, size - _END_SEARCH)
    tail = reader.read_at(tail_at, size - tail_at)
    at = tail.rfind(b"PK\x05\x06")
    while at >= 0 and len(tail) - at < _END.size:
        at = tail.rfind(b"PK\x05\x06", 0, at)
    if at < 0:
        raise DataRejected(
            f"{name} has no central directory: it is cut or no zip, so its members are unknown; copy or download it "
            "again, or repair it with `zip -FF`"
        )
    _, disk, first_disk, _, entries, length, start, _ = _END.unpack_from(tail, at)
    end = tail_at + at
    if _FULL in (length, start) or entries == _FULL16:
        wide = _find_zip64(reader, end)
        if wide:
            end, entries, length, start = wide
            disk = first_disk = 0
    if disk not in (0, _FULL16) or first_disk not in (0, _FULL16):
        raise DataRejected(f"{name} is one part of a divided zip; join the parts with `zip -s 0 {name} --out FILE`")
    found = end - length
    if found < 0 or start > found:
        raise DataRejected(f"the end record of {name} is damaged, so its members are unknown; copy the zip again")
    return _Directory(found, length, entries, found - start)


def _find_zip64(reader: Reader, end: int) -> tuple[int, int, int, int] | None:
    """Return end, entries, size and offset of the directory of a zip64; None if there is none."""
    at = end - _LOCATOR.size
    locator = reader.read_at(at, _LOCATOR.size) if at >= 0 else b""
    if not locator.startswith(b"PK\x06\x07"):
        return None
    announced = _LOCATOR.unpack(locator)[2]
    for record_at in (announced, at - _END64.size):
        record = reader.read_at(record_at, _END64.size) if 0 <= record_at < at else b""
        if record.startswith(b"PK\x06\x06") and len(record) == _END64.size:
            values = _END64.unpack(record)
            return record_at, values[7], values[8], values[9]
    return None
