"""Opens a set of MindRecord files for reading: a sealed dataset, or any set that a FileWriter has written."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dataprep.errors import DataprepError
from dataprep.mindrecord import ShardReader
from schemas.dataset import Dataset, load_dataset
from schemas.errors import ContractError
from schemas.layout import DATASET, WORK, index_name
from schemas.record import RecordSchema


@dataclass(frozen=True)
class RecordSet:
    """The files of one set in order. `dataset` is None where no manifest says more than the headers do."""

    files: tuple[Path, ...]
    schema: RecordSchema
    dataset: Dataset | None
    split: str | None

    def readers(self) -> Iterator[ShardReader]:
        """A reader of each file in turn, closed when the next is asked for."""
        for path in self.files:
            with ShardReader(path) as reader:
                if self.dataset is not None and reader.own_name != path.name:
                    raise ContractError(
                        f"{path} holds the data of {reader.own_name}: files were swapped or renamed; 'dataprep repair' "
                        "restores them"
                    )
                yield reader


def open_set(path: Path, split: str | None) -> RecordSet:
    """The set at `path`: a dataset folder (and one of its splits), one file of a set, or a folder with one set.

    Raises DataprepError or ContractError when there is no such set.
    """
    if path.is_file() and path.name != DATASET:
        return _from_header(path)
    folder = path.parent if path.name == DATASET else path
    if (folder / DATASET).exists() or (folder / WORK).is_dir():  # unsealed or half moved, it is no set yet: a sentence
        return _from_manifest(folder, split)
    return _from_header(_only_set(folder))


def _from_manifest(folder: Path, split: str | None) -> RecordSet:
    dataset = load_dataset(folder)
    name = split or next(iter(dataset.splits))
    if name not in dataset.splits:
        raise DataprepError(f"{folder} has no split '{name}'; it has {', '.join(dataset.splits)}")
    files = tuple(folder / shard.name for shard in dataset.splits[name].shards)
    return RecordSet(files, dataset.schema, dataset, name)


def _from_header(path: Path) -> RecordSet:
    with ShardReader(path) as reader:
        files = tuple(path.parent / Path(name).name for name in reader.names)
        return RecordSet(files, reader.schema, None, None)


def _only_set(folder: Path) -> Path:
    if not folder.is_dir():
        raise DataprepError(f"{folder} is no folder and no file")
    shards = sorted(path for path in folder.iterdir() if (folder / index_name(path.name)).is_file())
    if not shards:
        raise DataprepError(f"{folder} holds neither {DATASET} nor MindRecord files with their .db beside them")
    sets: dict[tuple[str, ...], Path] = {}
    for shard in shards:
        with ShardReader(shard) as reader:
            sets.setdefault(reader.names, shard)
    if len(sets) > 1:
        names = ", ".join(path.name for path in sets.values())
        raise DataprepError(f"{folder} holds {len(sets)} sets; name a file of one: {names}")
    return shards[0]
