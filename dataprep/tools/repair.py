"""`dataprep repair`: restore what can be restored without the images, and report the remaining problems."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dataprep.build.row_digests import SealedDigests, digests_of
from dataprep.build.workdir import save_row_digests
from dataprep.errors import DataprepError
from dataprep.items import StepProgress
from dataprep.mindrecord.index import IndexWriter
from dataprep.mindrecord.reader import ShardReader
from dataprep.tools.damage import DamagedSet, noted_digests
from dataprep.tools.verify import no_progress, verify
from schemas.dataset import Dataset, Shard, file_sha256, load_dataset
from schemas.layout import ROW_DIGESTS, WORK, index_name

ASIDE = ".aside"  # suffix of a file while names are swapped


@dataclass(frozen=True)
class Repaired:
    """The repairs and the remaining problems, one sentence each."""

    path: str
    done: list[str]
    problems: list[str]


def repair(folder: Path, progress: StepProgress = no_progress) -> Repaired:
    """Restore file names, and rebuild missing indexes and row digests.

    A rebuilt file is kept only if it matches the sealed digest. `progress` shows the check of the whole dataset at the
    end. Raises ContractError if dataset.json is damaged.
    """
    dataset = load_dataset(folder)
    done = _restore_names(folder, dataset)
    for shard in dataset.shards:
        path, index = folder / shard.name, folder / index_name(shard.name)
        intact = index.is_file() and file_sha256(index) == shard.index_sha256
        if not intact and path.is_file() and file_sha256(path) == shard.sha256:
            _rebuild_index(path, shard)
            done.append(f"{index.name} was rebuilt from the data")
    if _rebuild_row_digests(folder, dataset):
        done.append(f"{ROW_DIGESTS} was rebuilt from the data")
    return Repaired(str(folder), done, verify(folder, progress=progress).problems)


def _restore_names(folder: Path, dataset: Dataset) -> list[str]:
    """Rename files that have the digest of another name.

    This takes two steps, since names may be swapped.
    """
    moves = misplaced(folder, dataset)
    # After a kill, the next repair finds them by digest under these names too; no job deletes them.
    for path in moves:
        os.replace(path, f"{path}{ASIDE}")
    for path, target in moves.items():
        os.replace(f"{path}{ASIDE}", target)
    return [f"{path.name} is {target.name} again" for path, target in moves.items()]


def misplaced(folder: Path, dataset: Dataset) -> dict[Path, Path]:
    """Return the files with a wrong name, and their sealed paths."""
    shards = dataset.shards
    wanted = {s.sha256: s.name for s in shards} | {s.index_sha256: index_name(s.name) for s in shards}
    sizes = {s.bytes for s in shards} | {s.index_bytes for s in shards}
    if dataset.row_digests is not None:
        wanted[dataset.row_digests.sha256] = ROW_DIGESTS
        sizes.add(dataset.row_digests.bytes)
    files = [p for p in folder.iterdir() if p.is_file() and not p.is_symlink() and p.stat().st_size in sizes]
    moves = {}
    for path in sorted(files):
        name = wanted.get(file_sha256(path))
        if name and name != path.name and _is_not(folder / name, wanted, name):
            moves[path] = folder / name
    return moves


def _is_not(path: Path, wanted: dict[str, str], name: str) -> bool:
    """Return True if `path` is missing or not the file that was sealed as `name`."""
    return not path.is_file() or wanted.get(file_sha256(path)) != name


def _rebuild_index(path: Path, shard: Shard) -> None:
    """Rebuild the index of an undamaged shard and compare it with the sealed digest."""
    scratch = _scratch(path.parent)
    rebuilt = scratch / index_name(path.name)
    with ShardReader(path) as reader:
        writer = IndexWriter(scratch / path.name, reader.schema)
        writer.add(reader.index_rows())
        writer.close()
    if file_sha256(rebuilt) != shard.index_sha256:
        raise DataprepError(f"{rebuilt} differs from the sealed index: this release of SQLite writes different files")
    os.replace(rebuilt, path.with_name(rebuilt.name))
    scratch.rmdir()


def _scratch(folder: Path) -> Path:
    scratch = folder / WORK / "repair"
    scratch.mkdir(parents=True, exist_ok=True)
    return scratch


def _rebuild_row_digests(folder: Path, dataset: Dataset) -> bool:
    """Restore a damaged file of row digests. Return True if it matches the sealed digest."""
    digests = SealedDigests(folder / ROW_DIGESTS, dataset)
    if not digests.problem:
        return False
    scratch = _scratch(folder)
    try:
        if save_row_digests(scratch, _likely_digests(folder, dataset, digests)) != dataset.row_digests:
            return False
        os.replace(scratch / ROW_DIGESTS, folder / ROW_DIGESTS)
        return True
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _likely_digests(folder: Path, dataset: Dataset, digests: SealedDigests) -> Iterator[bytes]:
    """Yield the digests of all rows, from undamaged shards, .work, or the damaged file."""
    damaged = DamagedSet(folder, dataset, digests)
    for shard in dataset.shards:
        if damaged.is_undamaged(shard):
            yield from digests_of(folder / shard.name)
        elif any(noted_digests(folder, shard)):
            yield from noted_digests(folder, shard)
        elif digests.path.is_file():
            yield from digests.unchecked(shard)
