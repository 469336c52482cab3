"""`dataprep repair`: gives a damaged set back what can be had without the images, and says what cannot."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dataprep.build.row_digests import SealedDigests, digests_of
from dataprep.build.workdir import save_row_digests
from dataprep.errors import DataprepError
from dataprep.mindrecord.index import IndexWriter
from dataprep.mindrecord.reader import ShardReader
from dataprep.tools.damage import DamagedSet, noted_digests
from dataprep.tools.verify import Tell, silent, verify
from schemas.dataset import Dataset, Shard, file_sha256, load_dataset
from schemas.layout import ROW_DIGESTS, WORK, index_name

ASIDE = ".aside"  # behind the name of a file while names are swapped


@dataclass(frozen=True)
class Repaired:
    """What was done, a sentence each, and what is still wrong."""

    path: str
    done: list[str]
    problems: list[str]


def repair(folder: Path, tell: Tell = silent) -> Repaired:
    """Give files their names back, and build lost indexes and row digests again, where the sealed digests prove that it
    is right. `tell` follows the check of the whole set at the end.

    Raises ContractError when the manifest itself is unsound: then nothing says what is right.
    """
    dataset = load_dataset(folder)
    done = _restore_names(folder, dataset)
    for shard in dataset.shards:
        path, index = folder / shard.name, folder / index_name(shard.name)
        sound = index.is_file() and file_sha256(index) == shard.index_sha256
        if not sound and path.is_file() and file_sha256(path) == shard.sha256:
            _rebuild_index(path, shard)
            done.append(f"{index.name} was made anew from the data")
    if _rebuild_row_digests(folder, dataset):
        done.append(f"{ROW_DIGESTS} was made anew from the data")
    return Repaired(str(folder), done, verify(folder, tell=tell).problems)


def _restore_names(folder: Path, dataset: Dataset) -> list[str]:
    """Find files by digest that lie under another name; move all of them aside first, since names may be swapped."""
    moves = misplaced(folder, dataset)
    # Killed on the way, the next repair finds them by their digests under these names too; no job sweeps them away.
    for path in moves:
        os.replace(path, f"{path}{ASIDE}")
    for path, target in moves.items():
        os.replace(f"{path}{ASIDE}", target)
    return [f"{path.name} is {target.name} again" for path, target in moves.items()]


def misplaced(folder: Path, dataset: Dataset) -> dict[Path, Path]:
    """Return the files that lie under another name than they were sealed under, with the path where they belong."""
    shards = dataset.shards
    wanted = {s.sha256: s.name for s in shards} | {s.index_sha256: index_name(s.name) for s in shards}
    sizes = {s.bytes for s in shards} | {s.index_bytes for s in shards}
    if dataset.row_digests is not None:
        wanted[dataset.row_digests.sha256] = ROW_DIGESTS
        sizes.add(dataset.row_digests.bytes)
    files = [p for p in folder.iterdir() if p.is_file() and not p.is_symlink() and p.stat().st_size in sizes]
    found = {}
    for path in sorted(files):
        name = wanted.get(file_sha256(path))
        if name and name != path.name and _is_not(folder / name, wanted, name):
            found[path] = folder / name
    return found


def _is_not(path: Path, wanted: dict[str, str], name: str) -> bool:
    """Whether `path` is missing or not the file that was sealed under `name`."""
    return not path.is_file() or wanted.get(file_sha256(path)) != name


def _rebuild_index(path: Path, shard: Shard) -> None:
    """Make the index beside a sound shard; the sealed digest tells whether it is the same."""
    scratch = _scratch(path.parent)
    made = scratch / index_name(path.name)
    with ShardReader(path) as reader:
        writer = IndexWriter(scratch / path.name, reader.schema)
        writer.add(reader.index_rows())
        writer.close()
    if file_sha256(made) != shard.index_sha256:
        raise DataprepError(
            f"{made} was made anew, but is not what was sealed; this release of SQLite writes otherwise"
        )
    os.replace(made, path.with_name(made.name))
    scratch.rmdir()


def _scratch(folder: Path) -> Path:
    scratch = folder / WORK / "repair"
    scratch.mkdir(parents=True, exist_ok=True)
    return scratch


def _rebuild_row_digests(folder: Path, dataset: Dataset) -> bool:
    """Restore a damaged file of row digests; return True if it is what was sealed again."""
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
    """The digests of all rows: those of a sound shard from its data, of others from .work, or from the damaged file."""
    damaged = DamagedSet(folder, dataset, digests)
    for shard in dataset.shards:
        if damaged.is_sound(shard):
            yield from digests_of(folder / shard.name)
        elif any(noted_digests(folder, shard)):
            yield from noted_digests(folder, shard)
        elif digests.path.is_file():
            yield from digests.unchecked(shard)
