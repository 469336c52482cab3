"""Parquet files with image bytes, as the Hugging Face Hub has them: one row per image.

Columns are compressed, so the bytes of the images are unpacked into .work first, one row group at a time.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dataprep.errors import DataprepError, DataRejected
from dataprep.items import FoundClass, Item, Notice, Reject, ScanEntry
from dataprep.options import SourceOptions
from dataprep.sources.records.unpacked import Entry, unpacked
from dataprep.sources.source import Source
from dataprep.sources.split_folders import NAMES
from schemas.names import path_to_key

_MAGIC = b"PAR1"
_BATCH_ROWS = 256
_SPLIT = re.compile(rf"({'|'.join(NAMES)})(?:[-_.]\d.*)?", re.IGNORECASE)  # train-00000-of-00005
_LABELS = ("label", "labels", "class", "class_id", "category", "target", "fine_label", "y")
_IMAGES = ("image", "img", "picture", "photo", "data", "bytes")
_KEYS = ("key", "file_name", "filename", "path", "image_id", "id")
_CAPTIONS = ("caption", "captions", "text", "texts")


def recognises(path: Path) -> bool:
    """Return True for a Parquet file, or a folder with Parquet files at most one level down."""
    if path.is_file():
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    return any(path.glob("*.parquet")) or any(path.glob("*/*.parquet"))


def scan(root: Path, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield the image of every row.

    The split is that of the file or folder name, as in train-00000-of-00002.parquet. Raises DataRejected if a file is
    damaged, DataprepError if pyarrow is missing or a column is unclear.
    """
    _need_pyarrow()
    folder = root if root.is_dir() else root.parent
    files = [root] if root.is_file() else sorted([*root.glob("*.parquet"), *root.glob("*/*.parquet")])
    keys: set[str] = set()
    classes: set[tuple[str, str | None]] = set()
    stored = 0
    for path in files:
        name = path.relative_to(folder).as_posix()
        table = _Table(path, name, options)
        yield from (FoundClass(one, None, label) for label, one in enumerate(table.class_names))
        for values, place in unpacked(path, options.work, table.entries):
            key, split = values["key"], table.split
            if key in keys:
                yield Reject(key, "duplicate_key", f"an earlier row has this key; this one is in {name}")
                continue
            keys.add(key)
            if not place.length:
                yield Reject(key, "missing_file", f"row {values['row']} of {name} has no image bytes")
                continue
            named = [values["class"]] if values["class"] is not None else values["annotation"].get("classes", [])
            if options.needs == "class" and not named:
                yield Reject(key, "no_class", f"row {values['row']} of {name} has no class", place.length)
                continue
            for class_name in named:
                if (class_name, split) not in classes:
                    classes.add((class_name, split))
                    yield FoundClass(class_name, split)
            stored += place.length
            time = place.container.mtime_ns
            yield Item(key, values["class"] or "", split, place.length, time, place, values["annotation"] or None)
    yield Notice(f"{stored >> 20} MiB of images are unpacked from Parquet files into .work until the dataset is sealed")


def _need_pyarrow() -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:  # also if this release does not fit NumPy
        raise DataprepError(
            f"SOURCE has Parquet files, which need pyarrow ({error}): pip install 'pyarrow<26'"
        ) from None


class _Table:
    """One Parquet file and its columns. `name` is its path in messages."""

    def __init__(self, path: Path, name: str, options: SourceOptions) -> None:
        import pyarrow
        import pyarrow.parquet

        self._name, self._options = name, options
        self._broken = partial(_broken, path)
        self._errors = (pyarrow.ArrowException, OSError, EOFError)
        try:
            self._file = pyarrow.parquet.ParquetFile(path)
            self._schema = self._file.schema_arrow
        except self._errors as error:
            raise self._broken(error) from None
        self.split = _split(name)
        self._image = self._image_column()
        self._label = self._column(options.label_column, _LABELS, options.needs in ("class", "classes"))
        self._caption = self._column(None, _CAPTIONS, options.needs == "captions")
        self._key = self._column(options.path_column, _KEYS, False)
        self.class_names = _class_names(self._schema.metadata or {}, self._label)

    def _column(self, given: str | None, usual: tuple[str, ...], needed: bool) -> str | None:
        names = self._schema.names
        found = given if given is not None else next((name for name in usual if name in names), None)
        if found is not None and found not in names:
            raise DataprepError(f"{self._name} has no column '{found}'; it has {', '.join(names)}")
        if needed and found is None:
            raise DataprepError(
                f"{self._name} has none of the columns {', '.join(usual)}; name one with --label-column: "
                f"{', '.join(names)}"
            )
        return found

    def _image_column(self) -> str:
        """Return the column of image bytes: given, or the only one of a usual name or with the bytes of an image."""
        names = [field.name for field in self._schema if _holds_bytes(field.type)]
        given = self._options.image_field
        if given is not None:
            if given not in names:
                raise DataprepError(
                    f"--image-field {given} is not a column of bytes in {self._name}, which has {', '.join(names)}"
                )
            return given
        usual = [name for name in names if name in _IMAGES] or names
        if len(usual) != 1:
            raise DataprepError(
                f"{self._name} has {len(usual)} columns that may hold image bytes; choose one with --image-field: "
                f"{', '.join(usual or self._schema.names)}"
            )
        return str(usual[0])

    def entries(self) -> Iterator[Entry]:
        """Yield key, class, annotation and row number of each row, and its image bytes; empty if it has none.

        Raises DataRejected if the file is damaged.
        """
        row = 0
        try:
            for batch in self._file.iter_batches(batch_size=_BATCH_ROWS):
                for values in batch.to_pylist():
                    yield self._entry(row, values)
                    row += 1
        except self._errors as error:
            raise self._broken(error) from None

    def _entry(self, row: int, values: dict[str, Any]) -> Entry:
        image = values.pop(self._image)
        path = None
        if isinstance(image, dict):  # Hugging Face: {"bytes": ..., "path": ...}
            path, image = image.get("path"), image.get("bytes")
        given = values.get(self._key) if self._key else path
        key = path_to_key(str(given)) if given not in (None, "") else f"{self._name}/{row}"
        class_name, annotation = self._annotation(values)
        fields = {field.name: _plain(values.get(field.name)) for field in self._options.fields}
        if fields:
            annotation["fields"] = fields
        return {"key": key, "class": class_name, "annotation": annotation, "row": row}, image or b""

    def _annotation(self, values: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
        needs = self._options.needs
        label = values.get(self._label) if self._label else None
        if needs == "class":
            return (None if label is None else self._named(label)), {}
        if needs == "classes":
            labels = label if isinstance(label, list) else [] if label is None else [label]
            return None, {"classes": [self._named(one) for one in labels]}
        if needs == "captions":
            texts = values.get(str(self._caption))
            return None, {"captions": texts if isinstance(texts, list) else [] if texts is None else [str(texts)]}
        return None, {}

    def _named(self, label: object) -> str:
        """Return the class name of a label. A label outside the names of the file is its own name."""
        if self.class_names and isinstance(label, int) and 0 <= label < len(self.class_names):
            return self.class_names[label]
        return str(label)


def _split(name: str) -> str | None:
    """Return the split of a file from its name, or from its folder below SOURCE."""
    folder, _, file = name.rpartition("/")
    match = _SPLIT.fullmatch(file.removesuffix(".parquet"))
    return NAMES[match[1].lower()] if match else NAMES.get(folder.lower())


def _broken(path: Path, error: Exception) -> DataRejected:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DataRejected(f"{path} cannot be read as Parquet: {text}; nothing is sealed")


def _holds_bytes(kind: Any) -> bool:
    import pyarrow.types as types

    if types.is_struct(kind):
        return any(kind.field(i).name == "bytes" and _holds_bytes(kind.field(i).type) for i in range(kind.num_fields))
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


def _class_names(metadata: Mapping[bytes, bytes], label: str | None) -> list[str]:
    """Return the class names that the Hugging Face library writes into the file's metadata."""
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        return [str(name) for name in features[label]["names"]]
    except (KeyError, ValueError, TypeError):
        return []


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


PARQUET = Source(
    scan,
    "SOURCE/*.parquet or SOURCE/<split>/*.parquet with a column of image bytes, or one such file",
    recognises,
    gives=("class", "classes", "captions"),
    gives_fields=True,
    numbers_sort=True,
)
