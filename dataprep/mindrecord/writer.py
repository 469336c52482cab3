"""Write a shard and its index."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from dataprep.mindrecord.format import BLOB, PREFIX, RAW, Geometry, HeaderFull, Page, RowTooLarge, header_json
from dataprep.mindrecord.index import IndexRow, IndexWriter
from dataprep.mindrecord.rows import RowCodec
from schemas.layout import index_name
from schemas.record import RecordSchema

# Small images are buffered into writes of this size: one write per row would double the cost of a row.
WRITE_BYTES = 1 << 20


class ShardWriter:
    """Writes shard `shard_id` of the set `names` to `folder / names[shard_id]`, with its index beside it.

    Call write() per row and finish() at the end, after which both files are complete and synced. On an error, the
    context manager closes the files without a header, so no reader accepts them. The bytes equal those of FileWriter
    called once per row group. Memory: one raw page and the index rows of one row group.
    """

    def __init__(
        self, folder: Path, names: Sequence[str], shard_id: int, schema: RecordSchema, geometry: Geometry
    ) -> None:
        self.path = folder / names[shard_id]
        self.rows = 0
        self._names = list(names)
        self._shard_id = shard_id
        self._schema = schema
        self._geometry = geometry
        self._codec = RowCodec(schema)
        self._indexed = [field.name for field in schema.index_fields]
        self._saved = 0
        self._pages: list[Page] = []
        self._blob: Page | None = None
        self._raw: Page | None = None
        self._raw_data = bytearray()  # content of the open raw page
        self._group_raw = bytearray()  # the scalars of the open row group
        self._group_rows: list[tuple[int, int, int, int, tuple[object, ...]]] = []
        self._file = self.path.open("wb", buffering=WRITE_BYTES)
        self._index = IndexWriter(self.path, schema)

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._file.closed:
            self._index.abandon()
            self._file.close()

    def write(self, row: Mapping[str, object]) -> tuple[bytes, bytes]:
        """Append a row and return its stored blob and raw part.

        Raises RowError if a value has the wrong type or is invalid, RowTooLarge if no page can hold the row. The row is
        then not written.
        """
        blob, raw, saved = self._codec.encode(row)
        blob_bytes, raw_bytes = PREFIX.size + len(blob), PREFIX.size + len(raw)
        self._check_size(row, blob_bytes, raw_bytes)
        if self._blob is None or not self._fits(self._blob, blob_bytes, raw_bytes):
            self._end_group()
            self._blob = self._start_blob_page()
        page = self._blob
        self._file.write(PREFIX.pack(len(blob)))
        self._file.write(blob)
        raw_at = len(self._group_raw)
        self._group_raw += PREFIX.pack(len(raw)) + raw
        indexed = tuple(row[name] for name in self._indexed)
        self._group_rows.append((raw_at, raw_at + raw_bytes, page.used, page.used + blob_bytes, indexed))
        page.used += blob_bytes
        self._saved += saved
        self.rows += 1
        page.end_row = self.rows
        return blob, raw

    def _check_size(self, row: Mapping[str, object], blob_bytes: int, raw_bytes: int) -> None:
        needed = max(blob_bytes, raw_bytes)
        if needed > self._geometry.page_size:
            fields = self._schema.blob_fields if blob_bytes >= raw_bytes else self._schema.raw_fields
            name = fields[0].name
            raise RowTooLarge(name, row[name], needed, self._geometry.page_size)

    def _fits(self, page: Page, blob_bytes: int, raw_bytes: int) -> bool:
        limit = self._geometry.page_size
        return page.used + blob_bytes <= limit and len(self._group_raw) + raw_bytes <= limit

    def _start_page(self, kind: str, type_id: int) -> Page:
        page = Page(id=len(self._pages), kind=kind, type_id=type_id)
        self._pages.append(page)
        return page

    def _start_blob_page(self) -> Page:
        group = sum(page.kind == BLOB for page in self._pages) if self._blob is None else self._blob.type_id + 1
        page = self._start_page(BLOB, group)
        page.start_row = page.end_row = self.rows
        page.groups = [(0, 0)]
        self._file.seek(self._page_start(page))
        return page

    def _page_start(self, page: Page) -> int:
        return self._geometry.header_size + page.id * self._geometry.page_size

    def _end_group(self) -> None:
        """Move the scalars of the row group to a raw page. Start a new page if the group does not fit."""
        if self._blob is None:
            return
        if self._raw is None or self._raw.used + len(self._group_raw) > self._geometry.page_size:
            self._write_raw_page()
            # FileWriter numbers a raw page by its predecessor (measured on 2.10); no reader uses this number.
            self._raw = self._start_page(RAW, 0 if self._raw is None else self._raw.id + 1)
        raw, start = self._raw, self._raw.used
        raw.groups.append((self._blob.type_id, start))
        self._index.add(self._index_rows(self._blob, raw, start))
        self._raw_data += self._group_raw
        raw.used = len(self._raw_data)
        self._group_raw.clear()
        self._group_rows.clear()

    def _index_rows(self, blob: Page, raw: Page, start: int) -> list[IndexRow]:
        return [
            (blob.start_row + i, raw.id, start + raw_at, start + raw_end, blob.type_id, blob.id, at, end, *indexed)
            for i, (raw_at, raw_end, at, end, indexed) in enumerate(self._group_rows)
        ]

    def _write_raw_page(self) -> None:
        if self._raw is not None:
            self._file.seek(self._page_start(self._raw))
            self._file.write(self._raw_data)
            self._raw_data.clear()

    def finish(self) -> None:
        """Write the last pages, the header and the index, and sync both files.

        Raises HeaderFull if the header is too large.
        """
        self._end_group()
        self._write_raw_page()
        header = header_json(self._schema, self._geometry, self._names, self._shard_id, self._pages, self._saved)
        if PREFIX.size + len(header) > self._geometry.header_size:
            raise HeaderFull(f"the header of {self.path.name} needs {len(header)} bytes for {len(self._pages)} pages")
        self._file.seek(0)
        self._file.write(PREFIX.pack(len(header)) + header)
        self._file.flush()
        self._pad_header()
        os.fsync(self._file.fileno())
        self._file.close()
        self._index.close()
        with self.path.with_name(index_name(self.path.name)).open("rb") as index:
            os.fsync(index.fileno())

    def _pad_header(self) -> None:
        """Pad a shard without rows to header_size, because readers check the size."""
        if os.fstat(self._file.fileno()).st_size < self._geometry.header_size:
            self._file.truncate(self._geometry.header_size)
