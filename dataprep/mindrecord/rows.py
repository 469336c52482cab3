"""Encode a row to its blob and raw part, and decode it."""

import math
import struct
from collections.abc import Callable, Mapping
from typing import Any

from dataprep.mindrecord.format import RowError
from schemas.record import Field, RecordSchema

_RANGES = {"int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1)}
_BUFFER_FORMATS = {"int32": "i", "int64": "lq", "float32": "f", "float64": "d"}
_ITEM_BYTES = {"int32": 4, "int64": 8, "float32": 4, "float64": 8}
_LENGTH = struct.Struct(">Q")
_COUNT = struct.Struct(">I")
_WIDTHS = (1, 2, 4, 8)
NO_BLOB = b"\0\0\0\0"


class RowCodec:
    """Encodes and decodes the rows of a schema. In each part, columns are sorted by name."""

    def __init__(self, schema: RecordSchema) -> None:
        self.schema = schema
        self._blobs = schema.blob_fields
        self._raws = [(field, pack_text(field.name)) for field in schema.raw_fields]
        self._names = {field.name for field in schema.fields}
        self._indexed = {field.name for field in schema.index_fields}
        if len(self._raws) > 0xFFFF:
            raise ValueError("more than 65,535 scalar fields")

    def encode(self, row: Mapping[str, object]) -> tuple[bytes, bytes, int]:
        """Return blob part, raw part, and bytes saved by integer packing.

        Raises RowError if the row does not match the schema.
        """
        if row.keys() != self._names:
            name = sorted(row.keys() ^ self._names)[0]
            raise RowError(name, row.get(name), "is missing" if name in self._names else "is not in the schema")
        blob, saved = self._encode_blob(row)
        return blob, self._encode_raw(row), saved

    def _encode_blob(self, row: Mapping[str, object]) -> tuple[bytes, int]:
        parts, saved = [], 0
        for field in self._blobs:
            data, gain = _encode_blob_field(field, row[field.name])
            parts.append(data)
            saved += gain
        if len(parts) == 1:
            return parts[0], saved
        return b"".join(_LENGTH.pack(len(part)) + part for part in parts) or NO_BLOB, saved

    def _encode_raw(self, row: Mapping[str, object]) -> bytes:
        if not self._raws:
            return b"\x81" + pack_text("id") + b"\0"
        count = len(self._raws)
        parts = [bytes([0x80 | count]) if count < 16 else b"\xde" + struct.pack(">H", count)]
        for field, name in self._raws:
            parts += (name, _encode_scalar(field, row[field.name], field.name in self._indexed))
        return b"".join(parts)

    def decode(self, blob: bytes, raw: bytes) -> dict[str, Any]:
        """Return the row of a blob part and a raw part. Arrays are flat lists.

        Raises ValueError if the parts are damaged.
        """
        try:
            row = _unpack_map(raw) if self._raws else {}
            if set(row) != {field.name for field, _ in self._raws}:
                raise ValueError("its scalar fields differ from those of the schema")
            return row | self._decode_blob(blob)
        except (struct.error, IndexError, TypeError, UnicodeDecodeError) as error:
            raise ValueError(f"it cannot be decoded ({error})") from None

    def _decode_blob(self, blob: bytes) -> dict[str, Any]:
        if len(self._blobs) == 1:
            return {self._blobs[0].name: _decode_blob_field(self._blobs[0], blob)}
        values, at = {}, 0
        for field in self._blobs:
            (size,) = _LENGTH.unpack_from(blob, at)
            at += _LENGTH.size
            if at + size > len(blob):
                raise ValueError(f"field '{field.name}' ends beyond its row")
            values[field.name] = _decode_blob_field(field, blob[at : at + size])
            at += size
        return values


def _encode_scalar(field: Field, value: object, indexed: bool) -> bytes:
    if field.type == "string":
        return _encode_string(field, value, indexed)
    if field.type in _RANGES:
        low, high = _RANGES[field.type]
        if type(value) is not int:
            raise RowError(field.name, value, f"is {type(value).__name__}, expected int")
        if not low <= value <= high:
            raise RowError(field.name, value, f"is outside {field.type}")
        return pack_int(value)
    if not isinstance(value, float):
        raise RowError(field.name, value, f"is {type(value).__name__}, expected float")
    if indexed and not math.isfinite(value):
        # FileWriter aborts the process here.
        raise RowError(field.name, value, "an indexed field must be finite")
    return pack_float(value)


def _encode_string(field: Field, value: object, indexed: bool) -> bytes:
    if type(value) is not str:
        raise RowError(field.name, value, f"is {type(value).__name__}, expected str")
    if indexed and "\0" in value:
        raise RowError(field.name, value, "an indexed string must not contain a NUL character")
    try:
        return pack_text(value)
    except UnicodeEncodeError:
        raise RowError(field.name, value, "is not valid Unicode, so it cannot be encoded as UTF-8") from None


def _encode_blob_field(field: Field, value: object) -> tuple[bytes, int]:
    if field.shape is not None:
        return _encode_array(field, field.shape, value)
    if type(value) is not bytes:
        raise RowError(field.name, value, f"is {type(value).__name__}, expected bytes")
    if not value:
        raise RowError(field.name, value, "is empty")
    return value, 0


def _encode_array(field: Field, shape: tuple[int, ...], value: Any) -> tuple[bytes, int]:
    try:
        view = memoryview(value)
    except TypeError:
        raise RowError(field.name, value, f"is {type(value).__name__}, expected an array") from None
    if view.format not in _BUFFER_FORMATS[field.type] or view.itemsize != _ITEM_BYTES[field.type]:
        raise RowError(field.name, value, f"has items of type '{view.format}', expected {field.type}")
    if not _shape_fits(view.shape or (), shape):
        raise RowError(field.name, value, f"has shape {view.shape}, expected {list(shape)}")
    data = view.tobytes()
    if field.type not in _RANGES:
        return data, 0
    packed = pack_ints(_as_numbers(data, field.type))
    return packed, len(data) - len(packed)


def _as_numbers(data: bytes, kind: str) -> Any:
    """Return `data` as numbers of type `kind`.

    Raises TypeError if its length is not a multiple of their size.
    """
    form: Any = _BUFFER_FORMATS[kind][-1]
    return memoryview(data).cast(form)


def _shape_fits(actual: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    same_rank = len(actual) == len(wanted)
    return same_rank and all(size > 0 and want in (-1, size) for size, want in zip(actual, wanted, strict=True))


def pack_ints(values: Any) -> bytes:
    """Return [u32 BE count][2-bit width code per value, four per byte][each value little-endian in its width]."""
    codes = bytearray((len(values) + 3) // 4)
    body = []
    for i, value in enumerate(values):
        code = _width_code(value)
        codes[i // 4] |= code << (6 - 2 * (i % 4))
        body.append(value.to_bytes(_WIDTHS[code], "little", signed=True))
    return _COUNT.pack(len(values)) + bytes(codes) + b"".join(body)


def _width_code(value: int) -> int:
    for code, width in enumerate(_WIDTHS[:3]):
        if -(1 << (8 * width - 1)) <= value < 1 << (8 * width - 1):
            return code
    return 3


def unpack_ints(data: bytes) -> list[int]:
    """Return the integers that pack_ints packed.

    Raises ValueError or struct.error if `data` is truncated.
    """
    (count,) = _COUNT.unpack_from(data)
    at = _COUNT.size + (count + 3) // 4
    if at > len(data):
        raise ValueError("an integer array is truncated")
    values = []
    for i in range(count):
        width = _WIDTHS[data[_COUNT.size + i // 4] >> (6 - 2 * (i % 4)) & 3]
        if at + width > len(data):
            raise ValueError("an integer array is truncated")
        values.append(int.from_bytes(data[at : at + width], "little", signed=True))
        at += width
    return values


def _decode_blob_field(field: Field, data: bytes) -> Any:
    if field.shape is None:
        return data
    if field.type in _RANGES:
        return unpack_ints(data)
    return _as_numbers(data, field.type).tolist()


# The subset of msgpack that MindRecord uses: a flat map of text to integers, floats and text.


def pack_int(value: int) -> bytes:
    """Return a msgpack integer in its smallest form."""
    if value >= 0:
        if value < 0x80:
            return bytes([value])
        for code, limit, form in ((0xCC, 1 << 8, ">BB"), (0xCD, 1 << 16, ">BH"), (0xCE, 1 << 32, ">BI")):
            if value < limit:
                return struct.pack(form, code, value)
        return struct.pack(">BQ", 0xCF, value)
    if value >= -32:
        return struct.pack(">b", value)
    for code, bits, form in ((0xD0, 8, ">Bb"), (0xD1, 16, ">Bh"), (0xD2, 32, ">Bi")):
        if value >= -(1 << (bits - 1)):
            return struct.pack(form, code, value)
    return struct.pack(">Bq", 0xD3, value)


def pack_float(value: float) -> bytes:
    """Return a msgpack float32 if it is exact, otherwise a float64."""
    try:
        short = struct.pack(">Bf", 0xCA, value)
    except OverflowError:
        return struct.pack(">Bd", 0xCB, value)
    exact = math.isfinite(value) and struct.unpack_from(">f", short, 1)[0] == value
    return short if exact else struct.pack(">Bd", 0xCB, value)


def pack_text(value: str) -> bytes:
    """Return a msgpack string in its smallest form."""
    data = value.encode()
    size = len(data)
    if size < 32:
        return bytes([0xA0 | size]) + data
    if size < 1 << 8:
        return b"\xd9" + bytes([size]) + data
    if size < 1 << 16:
        return b"\xda" + struct.pack(">H", size) + data
    return b"\xdb" + struct.pack(">I", size) + data


_NUMBERS = {
    0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
    0xCA: ">f", 0xCB: ">d",
}  # fmt: skip
_TEXT_SIZES: dict[int, Callable[[bytes, int], tuple[int, ...]]] = {
    0xD9: struct.Struct(">B").unpack_from,
    0xDA: struct.Struct(">H").unpack_from,
    0xDB: struct.Struct(">I").unpack_from,
}


def _unpack_map(data: bytes) -> dict[str, Any]:
    count, at = data[0] & 0x0F, 1
    if data[0] == 0xDE:
        count, at = struct.unpack_from(">H", data, 1)[0], 3
    elif data[0] & 0xF0 != 0x80:
        raise ValueError("its raw part is not a msgpack map")
    values = {}
    for _ in range(count):
        key, at = _unpack_value(data, at)
        values[str(key)], at = _unpack_value(data, at)
    if at != len(data):
        raise ValueError("its raw part has surplus bytes")
    return values


def _unpack_value(data: bytes, at: int) -> tuple[Any, int]:
    code = data[at]
    if code < 0x80 or code >= 0xE0:
        return struct.unpack_from(">b", data, at)[0], at + 1
    if code in _NUMBERS:
        form = _NUMBERS[code]
        return struct.unpack_from(form, data, at + 1)[0], at + 1 + struct.calcsize(form)
    if code & 0xE0 == 0xA0:
        size, at = code & 0x1F, at + 1
    elif code in _TEXT_SIZES:
        (size,) = _TEXT_SIZES[code](data, at + 1)
        at += 1 + (1 << (code - 0xD9))
    else:
        raise ValueError(f"msgpack code {code:#x} is not one that MindRecord writes")
    if at + size > len(data):
        raise ValueError("a string ends beyond its row")
    return data[at : at + size].decode(), at + size
