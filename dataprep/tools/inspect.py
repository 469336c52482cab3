"""`dataprep inspect`: what a set holds, and one record of it, without MindSpore."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataprep.build.workdir import write_output
from dataprep.errors import DataprepError
from dataprep.mindrecord.index import find_rows
from dataprep.mindrecord.reader import ShardReader
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


@dataclass(frozen=True)
class Inspection:
    """A set in numbers. `class_rows` maps class names to rows in the split, `shards` file names to rows."""

    path: str
    split: str | None
    rows: int
    schema: RecordSchema
    shards: dict[str, int]
    bytes: int
    splits: dict[str, int]
    class_rows: dict[str, int]
    digest: str | None


@dataclass(frozen=True)
class Record:
    """One row: where it is, its scalars and array values, its image bytes and the name of its class, if it has any."""

    shard: str
    row: int
    values: dict[str, Any]
    blobs: dict[str, bytes]
    class_name: str | None = None


def inspect(path: Path, split: str | None = None) -> Inspection:
    """Describe the set at `path`, see open_set; raises DataprepError or ContractError."""
    opened = open_set(path, split)
    dataset = opened.dataset
    rows = {reader.path.name: reader.rows for reader in opened.readers()}
    return Inspection(
        path=str(path),
        split=opened.split,
        rows=sum(rows.values()),
        schema=opened.schema,
        shards=rows,
        bytes=sum(file.stat().st_size for file in opened.files),
        splits={name: part.rows for name, part in dataset.splits.items()} if dataset else {},
        class_rows=dict(zip(dataset.classes, dataset.splits[opened.split or ""].class_rows, strict=True))
        if dataset
        else {},
        digest=dataset.digest if dataset else None,
    )


def read_row(path: Path, split: str | None, number: int) -> Record:
    """Row `number` of the set, counted through its shards in order; raises DataprepError when there is none."""
    opened = open_set(path, split)
    before = 0
    for reader in opened.readers():
        if 0 <= number - before < reader.rows:
            return _record(opened, reader.path.name, number, reader.row(number - before))
        before += reader.rows
    raise DataprepError(f"row {number} does not exist: {opened.split or path} has the rows 0 to {before - 1}")


def read_key(path: Path, split: str | None, key: str) -> Record:
    """The record of this key; without `split` every split of a dataset is searched. Raises DataprepError."""
    first = open_set(path, split)
    others = [name for name in (first.dataset.splits if first.dataset and not split else ()) if name != first.split]
    for opened in [first, *(open_set(path, name) for name in others)]:
        record = _find(opened, key)
        if record:
            return record
    raise DataprepError(f"no record has the key '{key}'; keys are paths relative to SOURCE")


def _find(opened: RecordSet, key: str) -> Record | None:
    before = 0
    column = next(
        (field.name for field in opened.schema.index_fields if field.role == "key" or field.name == "key"), None
    )
    if column is None:
        raise DataprepError("the set has no indexed key column; ask with --row")
    for reader in opened.readers():
        for number in find_rows(reader.path, column, key):
            return _record(opened, reader.path.name, before + number, reader.row(number))
        before += reader.rows
    return None


def _record(opened: RecordSet, shard: str, number: int, row: dict[str, Any]) -> Record:
    blobs = {name: value for name, value in row.items() if isinstance(value, bytes)}
    values = {name: value for name, value in row.items() if name not in blobs}
    classes = opened.dataset.classes if opened.dataset else ()
    label = next((values.get(field.name) for field in opened.schema.fields if field.role == "label"), None)
    class_name = classes[label] if isinstance(label, int) and 0 <= label < len(classes) else None
    return Record(shard, number, values, blobs, class_name)


def save_image(record: Record, path: Path) -> None:
    """Write the record's only bytes field to `path`; raises DataprepError when it has none or several."""
    if len(record.blobs) != 1:
        raise DataprepError(f"the record has {len(record.blobs)} fields of bytes, so which is the image is not known")
    try:
        write_output(path, next(iter(record.blobs.values())))
    except OSError as error:
        raise DataprepError(f"cannot write {path}: {error.strerror}") from None
