"""Which rows of a damaged shard are still what was sealed."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple

from dataprep.build.receipt import NotedRow, blob_digest, noted_rows
from dataprep.build.row_digests import SealedDigests, stored_digest
from dataprep.build.workdir import rows_file
from dataprep.images.decoding import decode
from dataprep.mindrecord.format import Geometry
from dataprep.mindrecord.index import COLUMNS, IndexRow, read_index
from dataprep.mindrecord.reader import ShardReader, Stored, read_stored
from dataprep.mindrecord.rows import RowCodec
from schemas.dataset import Dataset, Shard, Split, file_sha256
from schemas.errors import ContractError
from schemas.images.policy import Policy, Refusal
from schemas.layout import index_name
from schemas.storage.regular_file import open_regular

_TYPES = {"string": str, "int32": int, "int64": int, "float32": float, "float64": float}


class CheckedRow(NamedTuple):
    """A row of a damaged shard. `key` is None where it is not known, `row` None where the row is damaged. `proven` says
    that a digest tells sound from damaged; without one a row counts as sound when its image decodes.
    """

    number: int
    key: str | None
    row: dict[str, Any] | None
    proven: bool


class DamagedSet:
    """The rows of the damaged shards of a sealed set. `data` maps shards to files that lie under another name."""

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
        """Where the data of `shard` lies."""
        return self._data.get(shard.name, self._folder / shard.name)

    def is_sound(self, shard: Shard) -> bool:
        """Return True if the data of `shard` is what was sealed."""
        return _is(self.path(shard), shard.bytes, shard.sha256)

    def geometry(self, split: Split) -> Geometry | None:
        """Header and page size of a split, from a sound shard where there is one; None where no header is readable.

        All shards of a split have the same, so that a damaged header costs no row.
        """
        name = split.shards[0].name if split.shards else ""
        if name not in self._geometries:
            self._geometries[name] = self._read_geometry(split)
        return self._geometries[name]

    def _read_geometry(self, split: Split) -> Geometry | None:
        damaged = []
        for shard in split.shards:
            with suppress(ContractError, OSError), ShardReader(self.path(shard), cut_allowed=True) as reader:
                if self.is_sound(shard):
                    return reader.geometry
                damaged.append(reader.geometry)
        return max(damaged, key=damaged.count) if damaged else None

    def rows(self, split: Split, shard: Shard, decode_unproven: bool = True) -> Iterator[CheckedRow]:
        """Each row of a damaged shard, read once. Without `decode_unproven` a readable row without digest is sound."""
        notes = chain(_notes(self._folder, shard), repeat(None))
        found = zip(self._stored(split, shard), self._digests.of(shard), notes, strict=False)
        for number, ((key, stored), digest, note) in enumerate(found):
            row = None if stored is None else self._decoded(stored)
            sound, proven = False, True
            if stored is not None and row is not None:
                proof = self._prove(stored, row, digest, note)
                proven = proof is not None
                sound = bool(proof) if proven else not decode_unproven or self._decodes(row)
            if note is not None:
                key = key or note.key
            if key is None and row is not None:
                key = str(row[self._key])
            yield CheckedRow(number, key, row if sound else None, proven)

    def _prove(self, stored: Stored, row: dict[str, Any], digest: bytes | None, note: NotedRow | None) -> bool | None:
        """Return whether a row is what was sealed; None where nothing says what was sealed."""
        if digest is not None:
            return stored_digest(stored) == digest
        if note is not None and note.row:
            return stored_digest(stored).hex() == note.row
        if note is None:
            return None
        image, label = (row[self._dataset.schema.column(role)] for role in ("image", "label"))
        return (row[self._key], label, blob_digest(image)) == (note.key, note.label, note.image)

    def _decodes(self, row: dict[str, Any]) -> bool:
        try:
            decode(row[self._dataset.schema.column("image")], Policy())
        except Refusal:
            return False
        return True

    def _decoded(self, stored: Stored) -> dict[str, Any] | None:
        try:
            row = self._codec.decode(*stored)
        except ValueError:
            return None
        # Damage may turn a number into text; without a digest nothing else would notice.
        typed = all(isinstance(row[field.name], _TYPES[field.type]) for field in self._dataset.schema.raw_fields)
        return row if typed else None

    def _stored(self, split: Split, shard: Shard) -> Iterator[tuple[str | None, Stored | None]]:
        """Key and data of each sealed row, by the index where that is sound: then a damaged length costs no other row,
        and a damaged header none. Else by the pages.
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
        with file:
            yield from ((key(row), read_stored(file, geometry, row)) for row in rows)


def _is(path: Path, size: int, sha256: str) -> bool:
    """Return True if a file has this size and digest; False too where it cannot be read."""
    with suppress(OSError):
        return path.is_file() and path.stat().st_size == size and file_sha256(path) == sha256
    return False


def _notes(folder: Path, shard: Shard) -> Iterator[NotedRow]:
    """What .work notes of the rows; it may have been left behind or be damaged too."""
    with suppress(OSError, ValueError, TypeError):
        yield from noted_rows(rows_file(folder, shard.name))


def noted_digests(folder: Path, shard: Shard) -> Iterator[bytes]:
    """The digests of the rows of a shard that .work notes; none where it is missing or of an earlier version."""
    with suppress(ValueError):
        yield from (bytes.fromhex(note.row) for note in _notes(folder, shard) if note.row)
