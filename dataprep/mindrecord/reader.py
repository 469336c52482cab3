"""Read a shard, written by this program or by FileWriter, from its pages.

The index is only compared with the pages.
"""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from dataprep.mindrecord.format import BLOB, HEADER_SIZES, PREFIX, RAW, VERSION, Geometry, Page
from dataprep.mindrecord.index import COLUMNS, IndexRow, read_index, read_index_name
from dataprep.mindrecord.rows import RowCodec
from schemas.errors import PASSING_ERRORS, ContractError
from schemas.parse import loads, take, take_all
from schemas.record import Field, RecordSchema
from schemas.storage.regular_file import open_regular

Stored = tuple[bytes, bytes]  # blob and raw part of a row, without their length prefixes
Span = tuple[Page, int, int]  # page, start and end of a row part in it, with prefix

# A bad sector, or an offset that no file has: the row is lost. Other errors are not of the data.
UNREADABLE = frozenset({errno.EIO, errno.EINVAL, errno.EOVERFLOW})


class ShardReader:
    """Reads the header and rows of a shard.

    `names` are all shards of the set, `rows` is the number of rows. If `cut_allowed`, the file may be truncated, and
    only access to the missing rows raises an error. Raises ContractError, with file and page, if the shard is damaged.
    """

    def __init__(self, path: Path, cut_allowed: bool = False) -> None:
        self.path = path
        self._cut_allowed = cut_allowed
        try:
            self._file = open_regular(path)
        except OSError as error:
            if error.errno == errno.EINTR or error.errno in PASSING_ERRORS:
                raise
            raise ContractError(f"cannot read {path}: {error.strerror}") from None
        try:
            self._read_header()
        except BaseException:
            self._file.close()
            raise

    @property
    def own_name(self) -> str | None:
        """The name of this shard in the header, None if `shard_id` is not in `names`."""
        return self.names[self.shard_id] if 0 <= self.shard_id < len(self.names) else None

    def __enter__(self) -> "ShardReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _read_header(self) -> None:
        self._size = os.fstat(self._file.fileno()).st_size
        header = loads(self._header_bytes(), f"the header of {self.path.name}")
        where = self.path.name
        version = take(header, "version", str, where)
        if version != VERSION:
            raise ContractError(f"{where} is MindRecord {version!r:.20}; this program reads {VERSION}")
        try:
            self.geometry = Geometry(take(header, "header_size", int, where), take(header, "page_size", int, where))
        except ValueError as error:
            raise ContractError(f"{where}: {error}") from None
        self.names = take_all(header, "shard_addresses", str, where)
        self.shard_id = take(header, "shard_id", int, where)
        self.schema = _read_schema(header, where)
        self._codec = RowCodec(self.schema)
        pages = take_all(header, "page", dict, where) if header.get("page") is not None else ()
        self._pages = [_read_page(page, where) for page in pages]
        self._check_pages()
        self.rows = sum(page.end_row - page.start_row for page in self._blobs.values())

    def _header_bytes(self) -> bytes:
        prefix = self._file.read(PREFIX.size)
        size = PREFIX.unpack(prefix)[0] if len(prefix) == PREFIX.size else 0
        if not 0 < size <= min(self._size - PREFIX.size, HEADER_SIZES[1]):
            raise ContractError(
                f"{self.path.name} has no MindRecord header: it is truncated, unfinished or another kind of file"
            )
        return self._file.read(size)

    def _check_pages(self) -> None:
        self._blobs = {page.type_id: page for page in self._pages if page.kind == BLOB}
        self._groups = {
            group: (page, start, end)
            for page in self._pages
            if page.kind == RAW
            for (group, start), end in zip(page.groups, [at for _, at in page.groups[1:]] + [page.used], strict=True)
        }
        for number, page in enumerate(self._pages):
            if page.id != number or not 0 <= page.used <= self.geometry.page_size or page.kind not in (BLOB, RAW):
                raise ContractError(f"{self.path.name}: the header's entry for page {number} is invalid")
            if self._start(page) + page.used > self._size and not self._cut_allowed:
                raise ContractError(f"{self.path.name} is truncated: page {page.id} ends beyond the end of the file")
        expected = 0
        for group, blob in sorted(self._blobs.items()):
            if blob.start_row != expected or blob.end_row < expected or group not in self._groups:
                raise ContractError(f"{self.path.name}: the rows of page {blob.id} do not follow the previous rows")
            expected = blob.end_row

    def _start(self, page: Page) -> int:
        return self.geometry.header_size + page.id * self.geometry.page_size

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for group in sorted(self._blobs):
            yield from self._group_rows(group)

    def row(self, number: int) -> dict[str, Any]:
        """Return row `number` of this shard. Raise IndexError if there is none."""
        for group, page in self._blobs.items():
            if page.start_row <= number < page.end_row:
                blobs, raws = self._group_spans(group)
                offset = number - page.start_row
                if offset >= min(len(blobs), len(raws)):
                    raise ContractError(f"{self.path.name}: row {number} is missing")
                return self._decode(number, blobs[offset], raws[offset])
        raise IndexError(number)

    def at(self, index_row: IndexRow) -> dict[str, Any]:
        """Return the row that an index row points to, without reading other rows.

        Raises ContractError if there is none.
        """
        number, raw_page, raw_start, raw_end, _, blob_page, start, end = index_row[: len(COLUMNS)]
        known = range(len(self._pages))
        if blob_page not in known or raw_page not in known or not (0 <= start < end and 0 <= raw_start < raw_end):
            raise ContractError(f"the index of {self.path.name} is wrong at row {number}")
        blob, raw = self._pages[blob_page], self._pages[raw_page]
        return self._decode(number, (blob, start, end), (raw, raw_start, raw_end))

    def stored(self) -> Iterator[tuple[int, Stored | None]]:
        """Yield the number and stored parts of every row, None for a missing row. Each row group is read once."""
        for group in sorted(self._blobs):
            page = self._blobs[group]
            try:
                blobs, raws = self._group_spans(group)
            except ContractError:
                blobs, raws = [], []
            for offset, number in enumerate(range(page.start_row, page.end_row)):
                yield number, self._stored(blobs[offset : offset + 1], raws[offset : offset + 1])

    def _stored(self, blobs: list[Span], raws: list[Span]) -> Stored | None:
        try:
            return (self._read(*blobs[0]), self._read(*raws[0])) if blobs and raws else None
        except ValueError:
            return None
        except OSError as error:
            if error.errno not in UNREADABLE:
                raise
            return None

    def _group_rows(self, group: int) -> Iterator[dict[str, Any]]:
        first = self._blobs[group].start_row
        for number, (blob, raw) in enumerate(zip(*self._group_spans(group), strict=True), first):
            yield self._decode(number, blob, raw)

    def _decode(self, number: int, blob: Span, raw: Span) -> dict[str, Any]:
        try:
            return self._codec.decode(self._read(*blob), self._read(*raw))
        except ValueError as error:
            raise ContractError(f"{self.path.name}: row {number} is damaged: {error}") from None

    def _read(self, page: Page, start: int, end: int) -> bytes:
        if end > page.used:
            raise ValueError("it ends beyond the end of its page")
        self._file.seek(self._start(page) + start + PREFIX.size)
        data = self._file.read(end - start - PREFIX.size)
        if len(data) != end - start - PREFIX.size:
            raise ValueError("the file ends before the row")
        return data

    def _group_spans(self, group: int) -> tuple[list[Span], list[Span]]:
        """Return the spans of the blob parts and of the raw parts of the rows in a group."""
        blob = self._blobs[group]
        raw, start, end = self._groups[group]
        count = blob.end_row - blob.start_row
        return self._spans(blob, 0, blob.used, count), self._spans(raw, start, end, count)

    def _spans(self, page: Page, start: int, end: int, count: int) -> list[Span]:
        spans: list[Span] = []
        at = start
        while at + PREFIX.size <= end and len(spans) <= count:  # a page of zeros has millions of empty rows
            self._file.seek(self._start(page) + at)
            prefix = self._file.read(PREFIX.size)
            size = PREFIX.unpack(prefix)[0] if len(prefix) == PREFIX.size else end
            spans.append((page, at, at + PREFIX.size + size))
            at += PREFIX.size + size
        if (at != end or len(spans) != count) and not self._cut_allowed:
            raise ContractError(f"{self.path.name}: page {page.id} is damaged: its rows do not add up to its size")
        return spans

    def index_rows(self) -> Iterator[IndexRow]:
        """Yield the correct index rows, computed from the pages."""
        indexed = [field.name for field in self.schema.index_fields]
        for group in sorted(self._blobs):
            first = self._blobs[group].start_row
            for i, (blob, raw) in enumerate(zip(*self._group_spans(group), strict=True)):
                values = self._decode(first + i, blob, raw)
                (blob_page, at, end), (raw_page, raw_at, raw_end) = blob, raw
                position = (first + i, raw_page.id, raw_at, raw_end, group, blob_page.id, at, end)
                yield (*position, *(values[name] for name in indexed))

    def index_problem(self, progress: Callable[[int], None] | None = None) -> str | None:
        """Return a sentence that describes how the index differs from the data; None if they agree.

        `progress` is called with the number of each row.
        """
        try:
            name = read_index_name(self.path)
            if name != self.path.name:
                return f"the index of {self.path.name} was written for {name!r}; shards cannot be renamed"
            actual = read_index(self.path, self.schema)
            for number, expected in enumerate(self.index_rows()):
                if progress is not None:
                    progress(number)
                if next(actual, None) != expected:
                    return f"the index of {self.path.name} is wrong from row {number} on"
            if next(actual, None) is not None:
                return f"the index of {self.path.name} has more rows than the shard's {self.rows}"
        except ContractError as error:
            return str(error)
        return None


def read_stored(file: BinaryIO, geometry: Geometry, index_row: IndexRow) -> Stored | None:
    """Return the stored row that an index row points to, without the header; None if it cannot be read."""
    if not all(isinstance(value, int) for value in index_row[: len(COLUMNS)]):
        return None
    _, raw_page, raw_start, raw_end, _, blob_page, start, end = index_row[: len(COLUMNS)]
    parts = []
    for page, at, to in ((blob_page, start, end), (raw_page, raw_start, raw_end)):
        size = min(to, geometry.page_size) - at - PREFIX.size
        if page < 0 or at < 0 or size < 0:
            return None
        try:
            data = os.pread(file.fileno(), size, geometry.header_size + page * geometry.page_size + at + PREFIX.size)
        except OverflowError:
            return None
        except OSError as error:
            if error.errno not in UNREADABLE:
                raise
            return None
        if len(data) != size:
            return None
        parts.append(data)
    return parts[0], parts[1]


def _read_schema(header: dict[str, Any], where: str) -> RecordSchema:
    entries = take_all(header, "schema", dict, where)
    if len(entries) != 1:
        raise ContractError(f"{where} has {len(entries)} schemas, expected one")
    columns = take(entries[0], "schema", dict, where)
    listed = take_all(header, "index_fields", dict, where) if header.get("index_fields") is not None else ()
    indexed = [take(entry, "index_field", str, where) for entry in listed]
    # The index columns have the order of index_fields, so these come first.
    names = indexed + [name for name in columns if name not in indexed]
    fields = []
    for name in names:
        column = take(columns, name, dict, where)
        shape = take_all(column, "shape", int, where) if "shape" in column else None
        fields.append(Field(name, take(column, "type", str, where), shape, index=name in indexed))
    return RecordSchema(take(entries[0], "desc", str, where), "mindrecord", tuple(fields))


def _read_page(value: dict[str, Any], where: str) -> Page:
    groups = take_all(value, "row_group_ids", dict, where)
    return Page(
        id=take(value, "page_id", int, where),
        kind=take(value, "page_type", str, where),
        type_id=take(value, "page_type_id", int, where),
        used=take(value, "page_size", int, where),
        start_row=take(value, "start_row_id", int, where),
        end_row=take(value, "end_row_id", int, where),
        groups=[(take(group, "id", int, where), take(group, "offset", int, where)) for group in groups],
    )
