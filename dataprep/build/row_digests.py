"""Digests of single rows: collected from the notes of workers, and read back from the sealed file.

The sha256 of a shard shows that it is damaged; the row digests show which rows are.
"""

from collections.abc import Iterator
from pathlib import Path

from dataprep.build.receipt import blob_digest, noted_rows, row_digest
from dataprep.build.workdir import Workdir
from dataprep.errors import DataprepError
from dataprep.mindrecord.reader import ShardReader, Stored
from dataprep.plan.store import Plan
from schemas.dataset import ROW_DIGEST_BYTES, Dataset, Shard, file_sha256
from schemas.errors import ContractError
from schemas.layout import ROW_DIGESTS
from schemas.storage.regular_file import open_regular


def stored_digest(stored: Stored) -> bytes:
    """Return the digest of a stored row."""
    blob, raw = stored
    return row_digest(blob_digest(blob), raw)


def built_digests(plan: Plan, work: Workdir) -> Iterator[bytes]:
    """Yield the digests of all rows of a built job, in the order of splits, shards and rows."""
    receipts = work.receipts()
    for planned in plan.shards:
        for noted in noted_rows(work.rows(planned.name)):
            if not noted.row:  # notes of an earlier version
                yield from _read_digests(work, receipts[planned.name].shard)
                break
            yield bytes.fromhex(noted.row)


def _read_digests(work: Workdir, shard: Shard) -> Iterator[bytes]:
    path = work.file(shard.name)
    if file_sha256(path) != shard.sha256:
        raise DataprepError(
            f"{path} is damaged (its sha256 differs), and its job recorded no row digests; shard again into another "
            "folder"
        )
    yield from digests_of(path)


def digests_of(path: Path) -> Iterator[bytes]:
    """Yield the digest of each row of an undamaged shard, computed from its data.

    Raises ContractError if a row cannot be read.
    """
    with ShardReader(path) as reader:
        for number, stored in reader.stored():
            if stored is None:
                raise ContractError(f"{path.name}: row {number} cannot be read")
            yield stored_digest(stored)


class SealedDigests:
    """The file of row digests of a sealed dataset, at `path`.

    If not `full`, only its size is checked. `problem` describes how the file differs from the sealed file. It is None
    if they are equal or if no file was sealed.
    """

    def __init__(self, path: Path, dataset: Dataset, full: bool = True) -> None:
        self.path = path
        self.sealed = dataset.row_digests is not None
        self.problem = self._find_problem(dataset, full)
        first_rows, row = {}, 0
        for shard in dataset.shards:
            first_rows[shard.name] = row
            row += shard.rows
        self._first_rows = first_rows

    @property
    def unknown(self) -> str:
        """The reason why row digests are unknown."""
        return f"{self.problem or f'the dataset was sealed without {ROW_DIGESTS}'}, and .work is missing or incomplete"

    def _find_problem(self, dataset: Dataset, full: bool) -> str | None:
        if dataset.row_digests is None:
            return None
        if not self.path.is_file():
            return f"{ROW_DIGESTS} is missing"
        actual, size = self.path.stat().st_size, dataset.row_digests.bytes
        if actual != size:
            return f"{ROW_DIGESTS} has {actual} bytes, expected {size}"
        try:
            if full and file_sha256(self.path) != dataset.row_digests.sha256:
                return f"{ROW_DIGESTS} does not match its sealed sha256"
        except OSError as error:
            return f"{ROW_DIGESTS} cannot be read: {error.strerror}"
        return None

    def of(self, shard: Shard) -> Iterator[bytes | None]:
        """Yield the sealed digest of each row of `shard`; None for each row if the file is missing or damaged."""
        if not self.sealed or self.problem:
            yield from (None for _ in range(shard.rows))
            return
        yield from self.unchecked(shard)

    def unchecked(self, shard: Shard) -> Iterator[bytes]:
        """Yield the digests in the file for the rows of `shard`, without checking the file."""
        with open_regular(self.path) as file:
            file.seek(self._first_rows[shard.name] * ROW_DIGEST_BYTES)
            for _ in range(shard.rows):
                yield file.read(ROW_DIGEST_BYTES)
