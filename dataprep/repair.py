"""`dataprep repair`: gives a damaged set back what can be had without the images, and says what cannot."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dataprep.errors import DataprepError
from dataprep.images import Policy, Refusal, decode
from dataprep.item import Reject
from dataprep.mindrecord import ShardReader, ShardWriter
from dataprep.mindrecord.index import IndexWriter
from dataprep.receipt import blob_digest, noted_rows
from dataprep.verify import verify
from dataprep.workdir import json_lines, rows_file, write_whole
from dataprep.worker import describe_shard
from schemas.dataset import Dataset, Shard, Split, file_sha256, load_dataset
from schemas.errors import ContractError
from schemas.layout import DATASET, DUPLICATES, REJECTS, index_name

ASIDE = ".aside"  # behind the name of a file while names are swapped
UNFINISHED = "salvage.unfinished"  # in a new set while its rows are written: the digest of the set they come from
OTHERS = (REJECTS, DUPLICATES, DATASET)


@dataclass(frozen=True)
class Repaired:
    """What was done, a sentence each, and what is still wrong."""

    path: str
    done: list[str]
    problems: list[str]


@dataclass(frozen=True)
class Salvaged:
    """A new set from what could be read of another. `lost` counts rows by split; rejects.jsonl names them."""

    path: str
    digest: str
    rows: dict[str, int]
    lost: dict[str, int]


def repair(folder: Path) -> Repaired:
    """Give files their names back and make lost indexes anew, where the sealed digests prove that it is right.

    Raises ContractError when the manifest itself is unsound: then nothing says what is right.
    """
    dataset = load_dataset(folder)
    done = _restore_names(folder, dataset.shards)
    for shard in dataset.shards:
        path, index = folder / shard.name, folder / index_name(shard.name)
        sound = index.is_file() and file_sha256(index) == shard.index_sha256
        if not sound and path.is_file() and file_sha256(path) == shard.sha256:
            _rebuild_index(path, shard)
            done.append(f"{index.name} was made anew from the data")
    return Repaired(str(folder), done, verify(folder).problems)


def _restore_names(folder: Path, shards: Sequence[Shard]) -> list[str]:
    """Find files by digest that lie under another name; move all of them aside first, since names may be swapped."""
    moves = _misplaced(folder, shards)
    # Killed on the way, the next repair finds them by their digests under these names too; no job sweeps them away.
    for path in moves:
        os.replace(path, f"{path}{ASIDE}")
    for path, target in moves.items():
        os.replace(f"{path}{ASIDE}", target)
    return [f"{path.name} is {target.name} again" for path, target in moves.items()]


def _misplaced(folder: Path, shards: Sequence[Shard]) -> dict[Path, Path]:
    """Return the files that lie under another name than they were sealed under, with the path where they belong."""
    wanted = {s.sha256: s.name for s in shards} | {s.index_sha256: index_name(s.name) for s in shards}
    sizes = {s.bytes for s in shards} | {s.index_bytes for s in shards}
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
    scratch = path.parent / ".work" / "repair"
    scratch.mkdir(parents=True, exist_ok=True)
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


def salvage(folder: Path, new: Path) -> Salvaged:
    """Write the rows of `folder` that are sound into a new sealed set in `new`, and list the others as rejects.

    A row is sound when it can be read, is what was noted when it was written (where .work came along), and its
    image decodes. Begun again after a kill, it begins anew. Raises DataprepError when `new` is not an empty folder.
    """
    dataset = load_dataset(folder)
    _claim(new, dataset)
    found_at = {target.name: path for path, target in _misplaced(folder, dataset.shards).items()}
    lost: list[Reject] = []
    splits, gone = {}, {}
    for name, split in dataset.splits.items():
        before = len(lost)
        splits[name] = _salvage_split(folder, new, dataset, split, found_at, lost)
        gone[name] = len(lost) - before
    rejected = Counter(dataset.rejected) + Counter(lost=len(lost))
    made = replace(dataset, splits=splits, rejected=rejected, plan={**dataset.plan, "salvaged_from": dataset.digest})
    for listed in (REJECTS, DUPLICATES):
        kept = (folder / listed).read_bytes() if (folder / listed).is_file() else b""
        write_whole(
            new / listed, kept + (json_lines(reject.to_dict() for reject in lost) if listed == REJECTS else b"")
        )
    write_whole(new / DATASET, made.to_json())
    (new / UNFINISHED).unlink()
    return Salvaged(str(new), made.digest, {name: split.rows for name, split in splits.items()}, gone)


def _claim(new: Path, dataset: Dataset) -> None:
    """Make the folder of a new set, or empty it of what a salvage of the same set that was killed has left in it."""
    mark = new / UNFINISHED
    if mark.is_file() and mark.read_text() in ("", dataset.digest):  # empty: killed before it was written
        names = [name for shard in dataset.shards for name in (shard.name, index_name(shard.name))]
        for name in (DATASET, *names, *(f"{listed}{end}" for listed in OTHERS for end in ("", ".part"))):
            (new / name).unlink(missing_ok=True)
        mark.unlink()
    if new.exists() and (not new.is_dir() or any(new.iterdir())):
        raise DataprepError(f"{new} is not an empty folder; choose another")
    new.mkdir(parents=True, exist_ok=True)
    mark.write_text(dataset.digest)


def _salvage_split(
    folder: Path, new: Path, dataset: Dataset, split: Split, found_at: dict[str, Path], lost: list[Reject]
) -> Split:
    geometry = _any_geometry(folder, split)
    label, image = dataset.schema.column("label"), dataset.schema.column("image")
    names = [shard.name for shard in split.shards]
    class_rows = [0] * len(dataset.classes)
    shards = []
    for number, shard in enumerate(split.shards):
        with ShardWriter(new, names, number, dataset.schema, geometry) as writer:
            for row, key in _sound_rows(found_at.get(shard.name, folder / shard.name), folder, shard, image):
                if row is None or not 0 <= row[label] < len(class_rows):
                    lost.append(Reject(key, "lost", f"its row in {shard.name} was damaged"))
                    continue
                writer.write(row)
                class_rows[row[label]] += 1
            writer.finish()
        shards.append(describe_shard(new / shard.name, writer.rows))
    return Split(tuple(class_rows), tuple(shards))


def _any_geometry(folder: Path, split: Split) -> Any:
    for shard in split.shards:
        try:
            with ShardReader(folder / shard.name, cut_allowed=True) as reader:
                return reader.geometry
        except ContractError:
            continue
    raise DataprepError(
        f"no shard of {split.shards[0].name.split('.')[0]} has a readable header; nothing can be salvaged"
    )


def _sound_rows(path: Path, folder: Path, shard: Shard, image: str) -> Iterator[tuple[dict[str, Any] | None, str]]:
    """Each row of a shard whose data lies at `path`, None where it is not sound, with its key where that is known."""
    noted = rows_file(folder, shard.name)
    known = list(noted_rows(noted)) if noted.is_file() else []
    try:
        reader = ShardReader(path, cut_allowed=True)
    except ContractError:
        yield from ((None, known[n].key if known else f"row {n} of {shard.name}") for n in range(shard.rows))
        return
    with reader:
        for number, row in reader.readable():
            key = known[number].key if number < len(known) else f"row {number} of {shard.name}"
            digest = known[number].image if number < len(known) else None
            yield (row if row is not None and _is_sound(row[image], digest) else None), key


def _is_sound(image: bytes, digest: str | None) -> bool:
    if digest is not None:
        return blob_digest(image) == digest
    try:
        decode(image, Policy())
    except Refusal:
        return False
    return True
