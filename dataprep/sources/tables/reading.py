"""Read the rows of CSV, TSV and JSON Lines files, each with its line number."""

import codecs
import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from dataprep.errors import DataprepError

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_SAMPLE_CHARACTERS = 1 << 16

Row = dict[str, Any]
Unreadable = str  # why a row cannot be read


@contextmanager
def opened(path: Path, encoding: str) -> Iterator[TextIO]:
    """Open a text file; a byte order mark decides before `encoding`. Raises DataprepError if it is no such text."""
    try:
        with path.open("rb") as file:
            head = file.read(4)
        marked = next((name for mark, name in _MARKS if head.startswith(mark)), encoding)
        with path.open(encoding=marked, newline="") as text:
            yield text
    except UnicodeError as error:
        raise DataprepError(
            f"{path} is not {marked} text ({_reason(error)}); give its encoding, such as --encoding cp1252 or gb18030"
        ) from None
    except LookupError:
        raise DataprepError(f"--encoding {encoding} is not an encoding that Python knows") from None


def _reason(error: UnicodeError) -> str:
    return f"byte 0x{error.object[error.start]:02x}" if isinstance(error, UnicodeDecodeError) else str(error)


def csv_rows(path: Path, encoding: str) -> Iterator[tuple[int, Row | Unreadable]]:
    """Yield line number and values by column of each row. A row with a wrong number of values is a sentence instead.

    The delimiter is the most frequent one of comma, tab and semicolon in the first line. Raises DataprepError for a
    file without columns, and for a quote that swallows lines: the images in them would be lost.
    """
    with opened(path, encoding) as file:
        first = file.readline(_SAMPLE_CHARACTERS)
        file.seek(0)
        delimiter = "\t" if path.suffix.lower() == ".tsv" else max(",\t;", key=first.count)
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        before = 0
        try:
            columns = next(reader, [])
            _check_columns(path, columns)
            before = reader.line_num
            for values in reader:
                line, before = before + 1, reader.line_num
                if not values:
                    continue
                if len(values) != len(columns):
                    if before > line:
                        raise _stray_quote(path, line)
                    yield line, f"it has {len(values)} values, the table has {len(columns)} columns"
                    continue
                yield line, dict(zip(columns, values, strict=True))
        except csv.Error as error:
            if reader.line_num > before + 1 or "end of data" in str(error):
                raise _stray_quote(path, before + 1) from None
            raise DataprepError(f"{path}, line {before + 1}: {error}") from None


def _check_columns(path: Path, columns: list[str]) -> None:
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if not columns:
        raise DataprepError(f"{path} is empty; expected a table whose first line has the names of the columns")
    if twice:
        raise DataprepError(f"{path} has two columns named '{twice[0]}'; rename one")


def _stray_quote(path: Path, line: int) -> DataprepError:
    return DataprepError(
        f"{path}, line {line}: a quote opens here and does not close in its value, so the next lines would be lost; "
        "remove it, or double it if it belongs to the text"
    )


def check_one_line(path: Path, line: int, value: str) -> None:
    """Raise DataprepError if a path has a line end: a stray quote has joined lines."""
    if "\n" in value or "\r" in value:
        raise _stray_quote(path, line)


def json_rows(path: Path, encoding: str) -> Iterator[tuple[int, Row | Unreadable]]:
    """Yield line number and object of each line. A line that is no JSON object is a sentence instead."""
    with opened(path, encoding) as file:
        for line, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                value = json.loads(text)
            except (ValueError, RecursionError) as error:
                yield line, f"it is not valid JSON ({error})"
                continue
            yield line, value if isinstance(value, dict) else f"it is a {type(value).__name__}, expected a JSON object"
