"""MindRecord files, sealed by this program or written by another: the rows are resharded.

Images are byte ranges of the files, so nothing is copied before the build.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataprep.errors import DataprepError, DataRejected
from dataprep.images.signatures import looks_like_image
from dataprep.items import ByteRange, Container, FoundClass, Item, Reject, ScanEntry, size_and_time
from dataprep.mindrecord.reader import ShardReader
from dataprep.options import SourceOptions
from dataprep.sources.source import Source
from dataprep.sources.split_folders import NAMES
from schemas.dataset import Dataset, load_dataset
from schemas.errors import ContractError
from schemas.layout import DATASET, index_name
from schemas.names import path_to_key
from schemas.record import Field

_SHARD = re.compile(r"(.*?)\.mindrecord\d*")
_LABELS = ("label", "labels", "class", "class_id", "category", "category_id", "target", "y")
_KEYS = ("key", "file_name", "filename", "name", "path", "image_id", "id")
_HEAD_BYTES = 2100


@dataclass(frozen=True)
class _Columns:
    """The columns of a set: image, key and label, and columns by role if this program sealed it."""

    image: str
    key: str | None
    label: str | None
    roles: Mapping[str, str]


def recognises(path: Path) -> bool:
    """Return True for a MindRecord file with its index, or a folder of such files."""
    if path.is_file():
        return (path.parent / index_name(path.name)).is_file()
    if not path.is_dir():
        return False
    return (path / DATASET).is_file() or any(_SHARD.fullmatch(entry.name) for entry in path.iterdir())


def scan(root: Path, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield the image of every row. The split is that of the file name, as in train.mindrecord0, if it names one.

    Raises DataRejected if a file is damaged or missing.
    """
    folder = root if root.is_dir() else root.parent
    try:
        dataset = load_dataset(folder) if (folder / DATASET).is_file() else None
        if dataset is not None:
            yield from (FoundClass(name, None, label) for label, name in enumerate(dataset.classes))
        keys: set[str] = set()
        classes: set[tuple[str, str | None]] = set()
        for path in _files(root, folder, dataset):
            for entry in _rows(path, dataset, options):
                if not isinstance(entry, Item):
                    yield entry
                    continue
                if entry.key in keys:
                    yield Reject(
                        entry.key, "duplicate_key", f"another row has this key too; this one is in {path.name}"
                    )
                    continue
                keys.add(entry.key)
                for name in _class_names(entry):
                    if (name, entry.split) not in classes:
                        classes.add((name, entry.split))
                        yield FoundClass(name, entry.split)
                yield entry
    except ContractError as error:
        raise DataRejected(f"SOURCE {root} cannot be read: {error}; nothing is sealed") from None


def _class_names(item: Item) -> list[str]:
    named = (item.annotation or {}).get("classes", [])
    assert isinstance(named, list)
    return [item.class_name] if item.class_name else list(dict.fromkeys(named))


def _files(root: Path, folder: Path, dataset: Dataset | None) -> list[Path]:
    """Return the files of all sets in SOURCE. Raises ContractError if one is missing."""
    if dataset is not None:
        return [folder / shard.name for shard in dataset.shards]
    first = [root] if root.is_file() else sorted(path for path in folder.iterdir() if _SHARD.fullmatch(path.name))
    names: dict[str, None] = {}
    for path in first:
        with ShardReader(path) as reader:
            names.update(dict.fromkeys(Path(name).name for name in reader.names))
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ContractError(f"{folder / missing[0]} is missing, which a file of its set names")
    return [folder / name for name in names]


def _rows(path: Path, dataset: Dataset | None, options: SourceOptions) -> Iterator[ScanEntry]:
    split = _split(path.name)
    with ShardReader(path) as reader:
        container = Container(path.name, *size_and_time(path.stat()))
        columns = _columns(reader, dataset, options)
        for number, values, places in reader.places():
            key = path_to_key(str(values[columns.key])) if columns.key else f"{path.name}/{number}"
            offset, length = places[columns.image]
            place = ByteRange(container, offset, length)
            row = _Row(reader, columns, values, places)
            try:
                names = dataset.classes if dataset else None
                class_name, annotation = _annotation(row, options.needs, container, names)
            except ValueError as error:
                yield Reject(key, "corrupt", f"row {number} of {path.name}: {error}", length)
                continue
            if options.fields:
                annotation["fields"] = {field.name: values.get(field.name) for field in options.fields}
            yield Item(key, class_name, split, length, container.mtime_ns, place, annotation or None)


def _split(name: str) -> str | None:
    match = _SHARD.fullmatch(name)
    return NAMES.get(match[1].lower()) if match else None


def _columns(reader: ShardReader, dataset: Dataset | None, options: SourceOptions) -> _Columns:
    """Find the columns by role in a sealed set, otherwise by option or by name. Raises DataprepError if unclear."""
    fields = {field.name: field for field in reader.schema.fields}
    if dataset is not None:
        roles = {field.role: field.name for field in dataset.schema.fields if field.role}
        return _Columns(roles["image"], roles["key"], roles.get("label"), roles)
    label = options.label_column or next((name for name in _LABELS if name in fields), None)
    if options.needs in ("class", "classes") and label not in fields:
        raise DataprepError(
            f"{reader.path} has no column '{label}' with the class; name it with --label-column: {', '.join(fields)}"
            if label
            else f"{reader.path} has no column of a usual name with the class; name it with --label-column, one of "
            f"{', '.join(fields)}"
        )
    texts = [name for name in _KEYS if name in fields and fields[name].type == "string"]
    return _Columns(_image_column(reader, fields, options), texts[0] if texts else None, label, {})


def _image_column(reader: ShardReader, fields: Mapping[str, Field], options: SourceOptions) -> str:
    blobs = [name for name, field in fields.items() if field.type == "bytes"]
    if options.image_field is not None:
        if options.image_field not in blobs:
            raise DataprepError(
                f"--image-field {options.image_field} is not a column of bytes in {reader.path}, which has "
                f"{', '.join(blobs) or 'none'}"
            )
        return options.image_field
    _, _, places = next(reader.places(), (0, {}, dict[str, tuple[int, int]]()))
    if not places and len(blobs) == 1:  # no row
        return blobs[0]
    images = [name for name in blobs if looks_like_image(_head(reader, places[name]))]
    if len(images) != 1:
        raise DataprepError(
            f"{len(images)} columns of {reader.path} have the bytes of an image file; choose one with --image-field: "
            f"{', '.join(images or blobs) or 'it has no column of bytes'}"
        )
    return images[0]


def _head(reader: ShardReader, place: tuple[int, int]) -> bytes:
    offset, length = place
    return reader.read_bytes(offset, min(length, _HEAD_BYTES))


class _Row:
    """One row: its scalar values, and the blob fields that are read on demand."""

    def __init__(
        self, reader: ShardReader, columns: _Columns, values: Mapping[str, Any], places: Mapping[str, tuple[int, int]]
    ) -> None:
        self._reader, self._columns = reader, columns
        self.values, self.places = values, places

    def of_role(self, role: str) -> Any:
        """Return the value of the column with this role. Raises DataprepError if the set has none."""
        name = self._columns.roles.get(role)
        if name is None:
            raise DataprepError(f"{self._reader.path} has no column with the role '{role}', which the records need")
        return self.values[name] if name in self.values else self._reader.read_place(name, self.places[name])

    def place_of(self, role: str) -> tuple[int, int]:
        """Return offset and length of a blob field. Raises DataprepError if the set has none of this role."""
        self.of_role(role)
        return self.places[self._columns.roles[role]]

    def has(self, role: str) -> bool:
        """Return True if a column has this role."""
        return role in self._columns.roles

    @property
    def label(self) -> Any:
        """Value of the column of the class."""
        name = self._columns.label or ""
        return self.values[name] if name in self.values else self._reader.read_place(name, self.places[name])


def _annotation(
    row: _Row, needs: str | None, container: Container, names: tuple[str, ...] | None
) -> tuple[str, dict[str, object]]:
    """Return the class name and annotation of a row. `names` are the classes of a sealed set.

    Raises ValueError for a damaged row or a label without a class.
    """

    def named(label: object) -> str:
        if names is None:
            return str(label)
        if not isinstance(label, int) or not 0 <= label < len(names):
            raise ValueError(f"its label {label!r} has no class")
        return names[label]

    if needs == "class":
        return named(row.label), {}
    if needs == "classes":
        labels = row.label if not row.has("image") else _labels(row)
        return "", {"classes": [named(label) for label in labels]}
    if needs == "boxes":
        return "", _boxes(row, named)
    if needs == "captions":
        return "", {"captions": json.loads(row.of_role("captions"))}
    if needs == "mask":
        offset, length = row.place_of("mask")
        place = [list(container), offset, length, "stored", None]
        return "", {"mask_file": {"place": place, "size": length, "mtime_ns": container.mtime_ns}}
    return "", {}


def _labels(row: _Row) -> list[int]:
    """Return the labels of a row of several classes, or of one."""
    if row.has("multi_hot"):
        return [label for label, value in enumerate(row.of_role("multi_hot")) if value]
    return [row.label] if row.has("label") else sorted({label for label in row.of_role("labels") if label >= 0})


def _boxes(row: _Row, named: Callable[[object], str]) -> dict[str, object]:
    """Return the objects of a row. A padding object has the label -1."""
    flat = row.of_role("boxes")
    boxes = [flat[at : at + 4] for at in range(0, len(flat), 4)]
    columns = [row.of_role(role) if row.has(role) else [0] * len(boxes) for role in ("labels", "iscrowd", "difficult")]
    objects = [one for one in zip(boxes, *columns, strict=True) if one[1] >= 0]
    return {
        "boxes": [box for box, *_ in objects],
        "classes": [named(label) for _, label, *_ in objects],
        "iscrowd": [crowd for *_, crowd, _ in objects],
        "difficult": [difficult for *_, difficult in objects],
    }


MINDRECORD = Source(
    scan,
    "SOURCE/*.mindrecord* with their .db files, or one such file",
    recognises,
    gives=("class", "classes", "boxes", "mask", "captions"),
    gives_fields=True,
    numbers_sort=True,
)
