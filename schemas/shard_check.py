"""Compare the header and index of a shard with dataset.json.

MindDataset trusts both: it crashes with SIGSEGV, or fails with an error of its own, if they disagree (measured on
2.10). This check therefore runs before a dataset is opened.
"""

import json
import os
import sqlite3
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.dataset import Shard
from schemas.errors import ContractError
from schemas.layout import index_name
from schemas.parse import take, take_all
from schemas.record import RecordSchema
from schemas.storage.index_file import open_index
from schemas.storage.regular_file import open_regular

VERSION = "3.0"
_PREFIX = struct.Struct("<Q")  # length of the header, and of each row
_HEADER_SIZES = (16 << 10, 128 << 20)
_PAGE_SIZES = (32 << 10, 256 << 20)
_KINDS = ("BLOB_DATA", "RAW_DATA")
_TYPES = {"int32": "integer", "int64": "integer", "float32": "real", "float64": "real", "string": "text"}
_POSITIONS = (
    "ROW_ID",
    "PAGE_ID_RAW",
    "PAGE_OFFSET_RAW",
    "PAGE_OFFSET_RAW_END",
    "ROW_GROUP_ID",
    "PAGE_ID_BLOB",
    "PAGE_OFFSET_BLOB",
    "PAGE_OFFSET_BLOB_END",
)


@dataclass(frozen=True)
class _Group:
    """A row group: rows `first` to `end` - 1, their blob page and its size, their raw page and byte range in it."""

    first: int
    end: int
    blob_page: int
    blob_bytes: int
    raw_page: int
    raw_start: int
    raw_end: int


def shard_problem(folder: Path, shard: Shard, schema: RecordSchema) -> str | None:
    """Return a sentence on the first contradiction between dataset.json and the header or index; None if they agree.

    Reads the header and the index but no rows. Raises OSError.
    """
    try:
        groups = _read_groups(folder / shard.name, shard, schema)
        _check_index(folder / index_name(shard.name), shard, schema, groups)
    except ContractError as error:
        return str(error)
    return None


def _read_groups(path: Path, shard: Shard, schema: RecordSchema) -> dict[int, _Group]:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        prefix = file.read(_PREFIX.size)
        length = _PREFIX.unpack(prefix)[0] if len(prefix) == _PREFIX.size else 0
        if not 0 < length <= min(size - _PREFIX.size, _HEADER_SIZES[1]):
            raise ContractError(f"{path.name} has no MindRecord header")
        header = _parse(file.read(length), path.name)
    sizes = _check_fields(header, length, path.name)
    _check_name(header, shard.name)
    _check_schema(header, schema, shard.name)
    groups = _groups(_pages(header, sizes, size, shard.name), shard.name)
    rows = max((group.end for group in groups.values()), default=0)
    if rows != shard.rows:
        raise ContractError(f"the header of {shard.name} counts {rows} rows, expected {shard.rows}")
    return groups


def _parse(data: bytes, name: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) != len(pairs):  # readers differ in which one they use
            raise ContractError(f"the header of {name} has a key twice")
        return values

    try:
        header = json.loads(data.decode(), object_pairs_hook=once)
    except (ValueError, RecursionError):
        raise ContractError(f"the header of {name} is not valid JSON") from None
    if not isinstance(header, dict):
        raise ContractError(f"the header of {name} is not a JSON object")
    return header


def _check_fields(header: dict[str, Any], length: int, name: str) -> tuple[int, int]:
    """Return header_size and page_size."""
    where = f"the header of {name}"
    if take(header, "version", str, where) != VERSION:
        raise ContractError(f"{where} is of version {header['version']!r:.20}; this program reads {VERSION}")
    sizes = []
    for key, (low, high) in (("header_size", _HEADER_SIZES), ("page_size", _PAGE_SIZES)):
        value = take(header, key, int, where)
        if not low <= value <= high or value % 4:
            raise ContractError(f"{where}: '{key}' is {value}, which is not valid in MindRecord")
        sizes.append(value)
    if length + _PREFIX.size > sizes[0]:
        raise ContractError(f"{where} is longer than its 'header_size'")
    if take(header, "compression_size", int, where) < 0 or header.get("statistics") is not None:
        raise ContractError(f"{where} has 'statistics' or a 'compression_size' that 'dataprep shard' never writes")
    return sizes[0], sizes[1]


def _check_name(header: dict[str, Any], name: str) -> None:
    names = take_all(header, "shard_addresses", str, f"the header of {name}")
    number = take(header, "shard_id", int, f"the header of {name}")
    own = names[number] if 0 <= number < len(names) else None
    if own != name:
        raise ContractError(f"{name} contains the data of {own!r:.80}: files were swapped or renamed")


def _check_schema(header: dict[str, Any], schema: RecordSchema, name: str) -> None:
    index = [{"index_field": field.name, "schema_id": 0} for field in schema.index_fields]
    types: dict[str, dict[str, Any]] = {field.name: {"type": field.type} for field in schema.fields}
    for field in schema.fields:
        if field.shape is not None:
            types[field.name]["shape"] = list(field.shape)
    blobs = [field.name for field in schema.blob_fields]
    schemas = take_all(header, "schema", dict, f"the header of {name}")
    own = schemas[0] if len(schemas) == 1 else {}
    if own.get("schema") != types or own.get("blob_fields") != blobs or header.get("index_fields") != (index or None):
        raise ContractError(f"the header of {name} has a schema that differs from dataset.json")


def _pages(header: dict[str, Any], sizes: tuple[int, int], file_bytes: int, name: str) -> list[dict[str, Any]]:
    """Return the page entries of the header after checking that each page is within the file."""
    where = f"the header of {name}"
    pages = take_all(header, "page", dict, where) if header.get("page") is not None else ()
    header_size, page_size = sizes
    for number, page in enumerate(pages):
        entry = f"{where}, page {number}"
        numbers = ("page_id", "page_size", "page_type_id", "shard_id", "start_row_id", "end_row_id")
        given, used, group, shard_id, first, end = (take(page, key, int, entry) for key in numbers)
        fits = given == number and shard_id == header["shard_id"] and 0 <= used <= page_size
        if not fits or group < 0 or not 0 <= first <= end or page.get("page_type") not in _KINDS:
            raise ContractError(f"{entry} is invalid")
        if header_size + number * page_size + used > file_bytes:
            raise ContractError(f"{entry} ends past the end of the file")
        for one in take_all(page, "row_group_ids", dict, entry):
            if not 0 <= take(one, "offset", int, entry) <= used or take(one, "id", int, entry) < 0:
                raise ContractError(f"{entry}: its row groups are invalid")
    return list(pages)


def _groups(pages: list[dict[str, Any]], name: str) -> dict[int, _Group]:
    """Return the row groups by number; each is one blob page and a byte range of a raw page."""
    raw: dict[int, tuple[int, int, int]] = {}
    for page in pages:
        if page["page_type"] == "RAW_DATA":
            starts = [(one["id"], one["offset"]) for one in page["row_group_ids"]]
            ends = [*(at for _, at in starts[1:]), page["page_size"]]
            for (group, start), end in zip(starts, ends, strict=False):
                if group in raw or end < start:
                    raise ContractError(f"the header of {name} has row group {group} twice, or out of order")
                raw[group] = (page["page_id"], start, end)
    groups: dict[int, _Group] = {}
    expected = 0
    for page in sorted((one for one in pages if one["page_type"] == "BLOB_DATA"), key=lambda one: one["page_type_id"]):
        number = page["page_type_id"]
        if number in groups or number not in raw or page["start_row_id"] != expected:
            raise ContractError(f"the header of {name}: page {page['page_id']} does not continue the rows")
        expected = page["end_row_id"]
        groups[number] = _Group(page["start_row_id"], expected, page["page_id"], page["page_size"], *raw[number])
    return groups


def _check_index(path: Path, shard: Shard, schema: RecordSchema, groups: dict[int, _Group]) -> None:
    with open_index(path) as db:
        names = [row[0] for row in db.execute("SELECT NAME FROM SHARD_NAME LIMIT 2")]
        if names != [shard.name]:
            raise ContractError(f"{path.name} was written for {names[0] if names else None!r:.80}, not {shard.name}")
        columns = [column[1] for column in db.execute("PRAGMA table_info(INDEXES)")]
        indexed = [each for i, field in enumerate(schema.index_fields) for each in (f"INC_{i}", f"{field.name}_0")]
        if columns != [*_POSITIONS, *indexed]:
            raise ContractError(f"{path.name} does not have the columns of the index of this schema")
        rows = _rows(db, schema)
        for number, group in sorted(groups.items(), key=lambda one: one[1].first):
            _check_group(path.name, rows, number, group)
        if next(rows, None) is not None:
            raise ContractError(f"{path.name} lists more than the {shard.rows} sealed rows")


def _rows(db: sqlite3.Connection, schema: RecordSchema) -> Iterator[tuple[Any, ...]]:
    """Yield the positions of each row, and 1 if its indexed values have the right types."""
    typed = [f"typeof(\"{field.name}_0\") = '{_TYPES[field.type]}'" for field in schema.index_fields]
    return db.execute(f"SELECT {', '.join(_POSITIONS)}, {' AND '.join(['1', *typed])} FROM INDEXES ORDER BY ROW_ID")


def _check_group(name: str, rows: Iterator[tuple[Any, ...]], group_id: int, group: _Group) -> None:
    """Check that the rows of a group are consecutive in its blob page and in its range of the raw page."""
    at, raw_at = 0, group.raw_start
    for number in range(group.first, group.end):
        row = next(rows, None)
        if row is None:
            raise ContractError(f"{name} lists only {number} rows, fewer than the shard's header")
        end, raw_end = row[7], row[3]
        if row[:3] != (number, group.raw_page, raw_at) or row[4:7] != (group_id, group.blob_page, at):
            raise ContractError(f"{name}: the position of row {number} contradicts the shard's header")
        if type(end) is not int or type(raw_end) is not int or end <= at + _PREFIX.size or raw_end <= raw_at:
            raise ContractError(f"{name}: row {number} ends before it begins")
        if row[8] != 1:
            raise ContractError(f"{name}: row {number} has a value that does not fit its column's type")
        at, raw_at = end, raw_end
    if (at, raw_at) != (group.blob_bytes, group.raw_end):
        raise ContractError(f"{name}: the rows of row group {group_id} do not end where the shard's header says")
