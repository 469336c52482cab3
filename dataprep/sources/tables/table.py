"""Layouts csv, jsonl and metadata: a table with the path of each image, its class and its split."""

import json
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataprep.errors import DataprepError
from dataprep.items import FoundClass, Item, Reject, ScanEntry, encode_name, portable_path, size_and_time
from dataprep.options import SourceOptions
from dataprep.sources.source import Source
from dataprep.sources.split_folders import NAMES
from dataprep.sources.tables.reading import Row, Unreadable, check_one_line, csv_rows, json_rows
from dataprep.sources.tables.values import (
    CAPTIONS,
    LABELS,
    OBJECTS,
    PATHS,
    SPLITS,
    Invalid,
    captions_of,
    class_of,
    classes_of,
    field_of,
    objects_of,
    split_of,
    usual_column,
)
from dataprep.sources.walk import missing_file
from dataprep.storage.disk import OWN_ERRORS
from schemas.names import path_to_key
from schemas.process.memory import is_shortage

Rows = Callable[[Path, str], Iterator[tuple[int, Row | Unreadable]]]
_METADATA = {"metadata.jsonl": json_rows, "metadata.csv": csv_rows}
_OF_NEED = {"class": LABELS, "classes": LABELS, "captions": CAPTIONS, "boxes": OBJECTS}


@dataclass(frozen=True)
class _Columns:
    """Names of the columns: path, what the records need, split and group. None if there is no such column."""

    path: str
    needed: str | None
    split: str | None
    group: str | None


class _Table:
    """One table. Paths in it are relative to `root`; `split` is that of all its rows, None if a column decides."""

    def __init__(
        self, path: Path, rows: Rows, root: Path, base: Path, options: SourceOptions, split: str | None
    ) -> None:
        self._path, self._rows, self._options, self._split = path, rows, options, split
        self._root = portable_path(os.path.abspath(root))
        self._base = portable_path(os.path.abspath(base))
        self._columns: _Columns | None = None
        self._seen: set[int] = set()

    def entries(self) -> Iterator[ScanEntry]:
        """Yield the image of each row, or a Reject that names the line."""
        if self._options.needs in ("classes", "captions"):
            yield from self._joined()
            return
        for line, row in self._rows(self._path, self._options.encoding):
            try:
                path = self._row_path(line, row)
                assert isinstance(row, dict)
                annotation = self._annotation(row)
                yield self._item(line, path, row, annotation)
            except Invalid as error:
                yield self._reject(line, error)

    def _joined(self) -> Iterator[ScanEntry]:
        """Yield one image for all rows with its path. The rows are sorted on disk."""
        with closing(sqlite3.connect("")) as db:
            db.execute("CREATE TABLE row(path TEXT, line INT, value TEXT)")
            for line, row in self._rows(self._path, self._options.encoding):
                try:
                    db.execute("INSERT INTO row VALUES(?, ?, ?)", (self._row_path(line, row), line, json.dumps(row)))
                except Invalid as error:
                    yield self._reject(line, error)
            db.execute("CREATE INDEX by_path ON row(path, line)")
            for path, line in db.execute("SELECT path, min(line) FROM row GROUP BY path ORDER BY 2").fetchall():
                values = db.execute("SELECT value FROM row WHERE path = ? ORDER BY line", (path,))
                rows = [json.loads(value) for (value,) in values]
                try:
                    name = "classes" if self._options.needs == "classes" else "captions"
                    listed = [self._annotation(row)[name] for row in rows]
                    joined = list(dict.fromkeys(one for values in listed for one in values))
                    annotation = self._annotation(rows[0]) | {name: joined}
                    yield self._item(line, path, rows[0], annotation)
                except Invalid as error:
                    yield self._reject(line, error)

    def _row_path(self, line: int, row: Row | Unreadable) -> str:
        """Return the path in a row. Raises Invalid if it has none, DataprepError if the table has no such column."""
        if isinstance(row, str):
            raise Invalid("invalid_row", row)
        if self._columns is None:
            self._columns = self._find_columns(row)
        value = row.get(self._columns.path)
        if not isinstance(value, (str, int)) or isinstance(value, bool) or not str(value).strip():
            raise Invalid("no_path", f"its path is {value!r:.80}")
        check_one_line(self._path, line, str(value))
        if "://" in str(value):
            raise Invalid("no_path", f"its path is the address {value:.200}; download the file first")
        return str(value)

    def _find_columns(self, row: Row) -> _Columns:
        given = self._options
        usual = _OF_NEED.get(given.needs or "")
        return _Columns(
            self._column(row, given.path_column, PATHS, "--path-column") or "",
            self._column(row, given.label_column, usual, "--label-column") if usual else None,
            self._column(row, given.split_column, SPLITS, None),
            given.group_column if given.group_column in row else None,
        )

    def _column(self, row: Row, given: str | None, usual: tuple[str, ...], option: str | None) -> str | None:
        found = given if given is not None else usual_column(row, usual)
        if (given is not None and given not in row) or (found is None and option):
            named = f"'{given}'" if given is not None else f"named {', '.join(usual[:4])} or alike"
            raise DataprepError(
                f"{self._path} has no column {named}; choose one with {option or '--split-column'}: "
                f"{', '.join(map(str, row))}"
            )
        return found

    def _annotation(self, row: Row) -> dict[str, Any]:
        """Return the annotation of a row. Raises Invalid."""
        assert self._columns is not None
        needs, value = self._options.needs, row.get(self._columns.needed or "")
        annotation: dict[str, Any] = {}
        if needs == "classes":
            annotation["classes"] = classes_of(value)
        elif needs == "captions":
            annotation["captions"] = captions_of(value)
        elif needs == "boxes":
            annotation |= objects_of(value)
        if self._options.fields:
            annotation["fields"] = {field.name: field_of(field, row.get(field.name)) for field in self._options.fields}
        return annotation

    def _item(self, line: int, text: str, row: Row, annotation: dict[str, Any]) -> Item:
        """Return the image of a row. Raises Invalid if the file cannot be used."""
        assert self._columns is not None
        path, status = self._status(text)
        key = path_to_key(_relative(path, self._root))
        if hash(path) in self._seen:
            raise Invalid("duplicate_key", f"an earlier row has its path '{text}'")
        self._seen.add(hash(path))
        class_name = class_of(row.get(self._columns.needed or "")) if self._options.needs == "class" else ""
        split = self._split or (split_of(row.get(self._columns.split)) if self._columns.split else None)
        group = str(row[self._columns.group]) if self._columns.group and row[self._columns.group] != "" else None
        place = _relative(path, self._base)
        return Item(key, class_name, split, *size_and_time(status), place, annotation or None, group)

    def _status(self, text: str) -> tuple[str, os.stat_result]:
        """Return absolute path and status of a file. Tables made on Windows have backslashes."""
        error: OSError | None = None
        for spelling in dict.fromkeys((text, text.replace("\\", "/"))):
            path = os.path.normpath(os.path.join(self._root, spelling))
            try:
                status = os.stat(encode_name(path))
            except (OSError, ValueError) as failed:  # ValueError: a NUL character
                error = failed if isinstance(failed, OSError) else OSError(0, str(failed))
                continue
            if not stat.S_ISREG(status.st_mode):
                raise Invalid("not_a_regular_file", f"'{text}' is not a regular file")
            return path, status
        assert error is not None
        if is_shortage(error) or error.errno in OWN_ERRORS:
            raise error
        reason = missing_file("", False, error)
        name = "missing_file" if reason.reason == "vanished" else reason.reason
        raise Invalid(name, f"'{text}' in {self._root}: {reason.detail}")

    def _reject(self, line: int, error: Invalid) -> Reject:
        return Reject(f"{self._path.name}:{line}", error.reason, f"line {line}: {error.detail}")


def _relative(path: str, folder: str) -> str:
    """Return a path below `folder` as relative to it, any other as it is."""
    return path[len(folder) :].lstrip("/") if path.startswith(folder.rstrip("/") + "/") else path


def _with_classes(entries: Iterator[ScanEntry]) -> Iterator[ScanEntry]:
    """Yield the entries, and before the first image of each class in a split the class."""
    known: set[tuple[str, str | None]] = set()
    for entry in entries:
        if isinstance(entry, Item):
            listed = (entry.annotation or {}).get("classes", [])
            assert isinstance(listed, list)
            for name in [entry.class_name] if entry.class_name else listed:
                if (name, entry.split) not in known:
                    known.add((name, entry.split))
                    yield FoundClass(name, entry.split)
        yield entry


def scan_csv(path: Path, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield the images of a CSV or TSV file."""
    yield from _with_classes(_Table(path, csv_rows, options.root or path.parent, path.parent, options, None).entries())


def scan_json(path: Path, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield the images of a JSON Lines file."""
    yield from _with_classes(_Table(path, json_rows, options.root or path.parent, path.parent, options, None).entries())


def scan_metadata(folder: Path, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield the images of the metadata files in a folder, or in its split folders."""
    for file in _metadata_files(folder):
        split = NAMES.get(file.parent.name.lower()) if file.parent != folder else None
        yield from _with_classes(_Table(file, _METADATA[file.name], file.parent, folder, options, split).entries())


def _metadata_files(folder: Path) -> list[Path]:
    folders = [folder, *(one for one in sorted(folder.iterdir()) if one.is_dir() and one.name.lower() in NAMES)]
    return [one / name for one in folders for name in _METADATA if (one / name).is_file()]


CSV = Source(
    scan_csv,
    "SOURCE is a CSV or TSV file with a column of paths and one of classes",
    lambda path: path.is_file() and path.suffix.lower() in (".csv", ".tsv"),
    gives=("class", "classes", "captions"),
    gives_fields=True,
    numbers_sort=True,
)
JSON_LINES = Source(
    scan_json,
    "SOURCE is a file with one JSON object per line, with the path and the class of an image",
    lambda path: path.is_file() and path.suffix.lower() in (".jsonl", ".ndjson"),
    gives=("class", "classes", "captions", "boxes"),
    gives_fields=True,
    numbers_sort=True,
)
METADATA = Source(
    scan_metadata,
    "SOURCE/metadata.jsonl or metadata.csv, or SOURCE/<split>/metadata.*, with file_name and more columns",
    lambda path: path.is_dir() and bool(_metadata_files(path)),
    gives=("class", "classes", "captions", "boxes"),
    gives_fields=True,
    numbers_sort=True,
)
