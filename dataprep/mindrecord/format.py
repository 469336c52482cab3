"""MindRecord file format: limits, pages, JSON header.

    file      [u64 LE n][JSON header, n bytes] ... page k at header_size + k*page_size
    blob page rows of [u64 LE n][n bytes]: images and arrays; one blob page is one row group
    raw page  rows of [u64 LE n][msgpack map]: the scalars of complete row groups

Derived from files written by FileWriter of MindSpore 2.10; tests compare the bytes with it.
"""

import json
import struct
from dataclasses import dataclass, field

from schemas.record import Field, RecordSchema

VERSION = "3.0"
PREFIX = struct.Struct("<Q")  # length of the header, and of each row
BLOB, RAW = "BLOB_DATA", "RAW_DATA"

HEADER_SIZES = (16 << 10, 128 << 20)
PAGE_SIZES = (32 << 10, 256 << 20)
# Size of a page entry in the JSON header: 170 characters of keys, plus numbers.
PAGE_ENTRY_BYTES = 220
# Size of a row group entry in a raw page: {"id":1234567,"offset":12345678}, and the comma.
GROUP_ENTRY_BYTES = 36


class RowError(Exception):
    """A row does not match the schema at `field`, which has the value `value`."""

    def __init__(self, field_name: str, value: object, reason: str) -> None:
        super().__init__(f"field '{field_name}' = {value!r:.80}: {reason}")
        self.field = field_name
        self.value = value


class RowTooLarge(RowError):
    """A row needs `needed` bytes, which is more than a page has."""

    def __init__(self, field_name: str, value: object, needed: int, page_size: int) -> None:
        super().__init__(field_name, value, f"the row needs {needed} bytes, but a page has {page_size}")
        self.needed = needed


class HeaderFull(Exception):
    """The JSON header, which has one entry per page, is larger than header_size."""


@dataclass(frozen=True)
class Geometry:
    """Sizes in bytes, equal in all files of a set. Raises ValueError if MindRecord does not allow them."""

    header_size: int
    page_size: int

    def __post_init__(self) -> None:
        for name, size, (low, high) in (
            ("header_size", self.header_size, HEADER_SIZES),
            ("page_size", self.page_size, PAGE_SIZES),
        ):
            if not low <= size <= high or size % 4:
                raise ValueError(f"{name} {size} must be a multiple of 4 from {low} to {high}")


@dataclass
class Page:
    """A page entry of the header. `type_id` is the row group of a blob page."""

    id: int
    kind: str
    type_id: int
    used: int = 0
    start_row: int = 0
    end_row: int = 0
    groups: list[tuple[int, int]] = field(default_factory=list)  # (row group, offset in the page)

    def to_dict(self, shard_id: int) -> dict[str, object]:
        """Return the JSON entry, with the key order of FileWriter."""
        return {
            "end_row_id": self.end_row,
            "page_id": self.id,
            "page_size": self.used,
            "page_type": self.kind,
            "page_type_id": self.type_id,
            "row_group_ids": [{"id": group, "offset": offset} for group, offset in self.groups],
            "shard_id": shard_id,
            "start_row_id": self.start_row,
        }


def header_json(
    schema: RecordSchema, geometry: Geometry, names: list[str], shard_id: int, pages: list[Page], saved: int
) -> bytes:
    """Return the header of shard `shard_id` of the set `names`.

    `saved` is the number of bytes saved by integer packing.
    """
    index = [{"index_field": entry.name, "schema_id": 0} for entry in schema.index_fields]
    header = {
        "header_size": geometry.header_size,
        "index_fields": index or None,
        "page": [page.to_dict(shard_id) for page in pages] or None,
        "page_size": geometry.page_size,
        "compression_size": max(0, saved),
        "schema": [
            {
                "blob_fields": [entry.name for entry in schema.blob_fields],
                "desc": schema.name,
                "schema": {entry.name: _field_json(entry) for entry in sorted(schema.fields, key=lambda f: f.name)},
            }
        ],
        "shard_addresses": names,
        "shard_id": shard_id,
        "statistics": None,
        "version": VERSION,
    }
    return json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()


def _field_json(entry: Field) -> dict[str, object]:
    if entry.shape is None:
        return {"type": entry.type}
    return {"shape": list(entry.shape), "type": entry.type}
