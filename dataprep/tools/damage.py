"""Find the undamaged rows of damaged shards."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple

from dataprep.build.receipt import NotedRow, blob_digest, noted_rows
from dataprep.build.records import find_record_kind
from dataprep.build.row_digests import SealedDigests, stored_digest
from dataprep.build.workdir import rows_file
from dataprep.images.decoding import decode
from dataprep.mindrecord.format import Geometry
from dataprep.mindrecord.index import COLUMNS, IndexRow, read_index
from dataprep.mindrecord.reader import ShardReader, Stored, read_stored
from dataprep.mindrecord.rows import RowCodec
from schemas.dataset import Dataset, Shard, Split, file_sha256
from schemas.errors import ContractError
from schemas.images.policy import ImageRejected, Policy
from schemas.layout import index_name
from schemas.storage.regular_file import open_regular

_TYPES = {"string": str, "int32": int, "int64": int, "float32": float, "float64": float}


class CheckedRow(NamedTuple):
    """A row of a damaged shard.

    `key` is None if unknown. `row` is None if the row is damaged. `verified` is True if a digest was compared. A row
    without a digest counts as undamaged if its image decodes.
    """

    number: int
    key: str | None
    row: dict[str, Any] | None
    verified: bool


class DamagedSet:
    """The damaged shards of a sealed dataset. `data` maps shards to files with another name."""

    def __init__(
        self, folder: Path, dataset: Dataset, digests: SealedDigests, data: dict[str, Path] | None = None
    ) -> None:
        self._folder = folder
        self._dataset = dataset
        self._digests = digests
        self._data = data or {}
        self._codec = RowCodec(dataset.schema)
        self._geometries: dict[str, Geometry | None] = {}
        self._key = dataset.schema.column("key")

    def path(self, shard: Shard) -> Path:
        """Return the path of the data of `shard`."""
        return self._data.get(shard.name, self._folder / shard.name)

    def is_undamaged(self, shard: Shard) -> bool:
        """Return True if the data of `shard` is unchanged since it was sealed."""
        return _is(self.path(shard), shard.bytes, shard.sha256)

    def geometry(self, split: Split) -> Geometry | None:
        """Return header and page size of a split; None if no header is readable.

        They are equal for all shards of a split and are read from an undamaged shard if possible. So a damaged header
        loses no row.
        """
        name = split.shards[0].name if split.shards else ""
        if name not in self._geometries:
            self._geometries[name] = self._read_geometry(split)
        return self._geometries[name]

    def _read_geometry(self, split: Split) -> Geometry | None:
        damaged = []
        for shard in split.shards:
            with suppress(ContractError, OSError), ShardReader(self.path(shard), cut_allowed=True) as reader:
                if self.is_undamaged(shard):
                    return reader.geometry
                damaged.append(reader.geometry)
        return max(damaged, key=damaged.count) if damaged else None

    def rows(self, split: Split, shard: Shard, decode_unverified: bool = True) -> Iterator[CheckedRow]:
        """Yield each row of a damaged shard.

        If not `decode_unverified`, a readable row without a digest counts as undamaged.
        """
        notes = chain(_notes(self._folder, shard), repeat(None))
        rows = zip(self._stored(split, shard), self._digests.of(shard), notes, strict=False)
        for number, ((key, stored), digest, note) in enumerate(rows):
            row = None if stored is None else self._decoded(stored)
            undamaged, verified = False, True
            if stored is not None and row is not None:
                matches = self._matches(stored, row, digest, note)
                verified = matches is not None
                undamaged = bool(matches) if verified else not decode_unverified or self._decodes(row)
            if note is not None:
                key = key or note.key
            if key is None and row is not None:
                key = str(row[self._key])
            yield CheckedRow(number, key, row if undamaged else None, verified)

    def _matches(self, stored: Stored, row: dict[str, Any], digest: bytes | None, note: NotedRow | None) -> bool | None:
        """Return True if a row is unchanged since it was sealed, False if not, None without a digest or note."""
        if digest is not None:
            return stored_digest(stored) == digest
        if note is not None and note.row:
            return stored_digest(stored).hex() == note.row
        if note is None:
            return None
        schema = self._dataset.schema
        labels = list(find_record_kind(schema.kind).labels(schema, row))
        label = labels[0] if schema.has_role("label") else labels
        image = row[schema.column("image")]
        return (row[self._key], label, blob_digest(image)) == (note.key, note.label, note.image)

    def _decodes(self, row: dict[str, Any]) -> bool:
        try:
            decode(row[self._dataset.schema.column("image")], Policy())
        except ImageRejected:
            return False
        return True

    def _decoded(self, stored: Stored) -> dict[str, Any] | None:
        try:
            row = self._codec.decode(*stored)
        except ValueError:
            return None
        # Without a digest, this detects damage that turns a number into text.
        typed = all(isinstance(row[field.name], _TYPES[field.type]) for field in self._dataset.schema.raw_fields)
        return row if typed else None

    def _stored(self, split: Split, shard: Shard) -> Iterator[tuple[str | None, Stored | None]]:
        """Yield key and data of each sealed row.

        They are located by the index if it is undamaged, otherwise by the pages. With the index, a damaged length
        affects no other row, and a damaged header affects none.
        """
        geometry = self.geometry(split)
        index = self._folder / index_name(shard.name)
        if geometry is not None and _is(index, shard.index_bytes, shard.index_sha256):
            yield from self._by_index(shard, geometry)
            return
        read: Iterator[Stored | None] = iter(())
        with suppress(ContractError, OSError), ShardReader(self.path(shard), cut_allowed=True) as reader:
            read = (stored for _, stored in reader.stored())
            for _ in range(shard.rows):
                yield None, next(read, None)
            return
        yield from ((None, None) for _ in range(shard.rows))

    def _by_index(self, shard: Shard, geometry: Geometry) -> Iterator[tuple[str | None, Stored | None]]:
        path = self.path(shard)
        indexed = [field.name for field in self._dataset.schema.index_fields]
        key_at = len(COLUMNS) + indexed.index(self._key) if self._key in indexed else None

        def key(row: IndexRow) -> str | None:
            return None if key_at is None else str(row[key_at])

        rows = read_index(self._folder / shard.name, self._dataset.schema)
        try:
            file = open_regular(path)
        except (OSError, ContractError):
            yield from ((key(row), None) for row in rows)
            return
        try:
            yield from ((key(row), read_stored(file, geometry, row)) for row in rows)
        finally:
            with suppress(OSError):  # closing a file that was only read loses nothing
                file.close()


def _is(path: Path, size: int, sha256: str) -> bool:
    """Return True if a file is readable and has this size and digest."""
    with suppress(OSError):
        return path.is_file() and path.stat().st_size == size and file_sha256(path) == sha256
    return False


def _notes(folder: Path, shard: Shard) -> Iterator[NotedRow]:
    """Yield the row notes in .work. They may be missing or damaged."""
    with suppress(OSError, ValueError, TypeError):
        yield from noted_rows(rows_file(folder, shard.name))


def noted_digests(folder: Path, shard: Shard) -> Iterator[bytes]:
    """Yield the row digests in .work. Yield nothing if it is missing or from an earlier version."""
    with suppress(ValueError):
        yield from (bytes.fromhex(note.row) for note in _notes(folder, shard) if note.row)
