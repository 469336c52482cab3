"""`dataprep inspect`: show the content of a dataset, or one record, without MindSpore."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
    """The files of one dataset or split, in order. `dataset` is None without dataset.json."""

    files: tuple[Path, ...]
    schema: RecordSchema
    dataset: Dataset | None
    split: str | None

    def readers(self) -> Iterator[ShardReader]:
        """Yield a reader of each file. It is closed when the next one is requested."""
        for path in self.files:
            with ShardReader(path) as reader:
                if self.dataset is not None and reader.own_name != path.name:
                    raise ContractError(
                        f"{path} contains the data of {reader.own_name}: files were swapped or renamed; "
                        "'dataprep repair' restores them"
                    )
                yield reader


def open_set(path: Path, split: str | None) -> RecordSet:
    """Open a dataset folder (and one of its splits), a MindRecord file, or a folder with one set of MindRecord files.

    Raises DataprepError or ContractError if there is none.
    """
    if path.is_file() and path.name != DATASET:
        return _from_header(path)
    folder = path.parent if path.name == DATASET else path
    if (folder / DATASET).exists() or (folder / WORK).is_dir():  # load_dataset reports unsealed datasets
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
        raise DataprepError(f"{folder} is not a folder or a file")
    shards = sorted(path for path in folder.iterdir() if (folder / index_name(path.name)).is_file())
    if not shards:
        raise DataprepError(f"{folder} has no {DATASET} and no MindRecord file with its .db file")
    sets: dict[tuple[str, ...], Path] = {}
    for shard in shards:
        with ShardReader(shard) as reader:
            sets.setdefault(reader.names, shard)
    if len(sets) > 1:
        names = ", ".join(path.name for path in sets.values())
        raise DataprepError(f"{folder} has {len(sets)} sets of MindRecord files; give one file of the set: {names}")
    return shards[0]


@dataclass(frozen=True)
class Inspection:
    """The counts of a dataset.

    `class_rows` maps class names to rows in the split. `shards` maps file names to rows.
    """

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
    """One row: its shard and number, scalar and array values, image bytes, and class name if it has one."""

    shard: str
    row: int
    values: dict[str, object]
    blobs: dict[str, bytes]
    class_name: str | None = None


def inspect(path: Path, split: str | None = None) -> Inspection:
    """Return the counts of the dataset at `path`, see open_set.

    Raises DataprepError or ContractError if it cannot be read.
    """
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
        splits={name: each.rows for name, each in dataset.splits.items()} if dataset else {},
        class_rows=dict(zip(dataset.classes, dataset.splits[opened.split or ""].class_rows, strict=True))
        if dataset
        else {},
        digest=dataset.digest if dataset else None,
    )


def read_row(path: Path, split: str | None, number: int) -> Record:
    """Return row `number`, counted through the shards in order.

    Raises DataprepError if there is none.
    """
    opened = open_set(path, split)
    before = 0
    for reader in opened.readers():
        if 0 <= number - before < reader.rows:
            return _record(opened, reader.path.name, number, reader.row(number - before))
        before += reader.rows
    raise DataprepError(f"row {number} does not exist: {opened.split or path} has the rows 0 to {before - 1}")


def read_key(path: Path, split: str | None, key: str) -> Record:
    """Return the record with this key. Without `split` all splits are searched.

    Raises DataprepError if the key is not found.
    """
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
        raise DataprepError("there is no indexed key column; use --row")
    for reader in opened.readers():
        for number in find_rows(reader.path, column, key):
            return _record(opened, reader.path.name, before + number, reader.row(number))
        before += reader.rows
    return None


def _record(opened: RecordSet, shard: str, number: int, row: dict[str, object]) -> Record:
    blobs = {name: value for name, value in row.items() if isinstance(value, bytes)}
    values = {name: value for name, value in row.items() if name not in blobs}
    classes = opened.dataset.classes if opened.dataset else ()
    label = next((values.get(field.name) for field in opened.schema.fields if field.role == "label"), None)
    class_name = classes[label] if isinstance(label, int) and 0 <= label < len(classes) else None
    return Record(shard, number, values, blobs, class_name)


def save_image(record: Record, path: Path) -> None:
    """Write the only bytes field of the record to `path`.

    Raises DataprepError if it has none or several.
    """
    if len(record.blobs) != 1:
        raise DataprepError(f"the record has {len(record.blobs)} bytes fields, so the image is ambiguous")
    try:
        write_output(path, next(iter(record.blobs.values())))
    except OSError as error:
        raise DataprepError(f"cannot write {path}: {error.strerror}") from None
