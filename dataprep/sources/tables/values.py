"""Find the columns of a table and turn its values into annotations."""

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from dataprep.sources.split_folders import NAMES
from schemas.record import Field

PATHS = (
    "path", "file", "filename", "file_name", "filepath", "file_path", "image", "image_path", "imagepath", "image_file",
    "img", "img_path", "image_name", "image_id", "id",
)  # fmt: skip
LABELS = (
    "label", "labels", "class", "classes", "class_name", "classname", "category", "category_name", "target", "tag",
    "tags", "y", "class_id", "label_id",
)  # fmt: skip
SPLITS = ("split", "set", "subset", "partition", "fold", "phase")
CAPTIONS = ("caption", "captions", "text", "texts", "description")
OBJECTS = ("objects", "annotations")
_RANGES = {"int32": 1 << 31, "int64": 1 << 63}


class Invalid(Exception):
    """A value cannot be used: reason code and detail."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


def usual_column(columns: Iterable[str], names: Sequence[str]) -> str | None:
    """Return the column with the first of the usual names, in any case; None if there is none."""
    known = {column.strip().lower(): column for column in columns}
    return next((known[name] for name in names if name in known), None)


def split_of(value: object) -> str | None:
    """Return the split that a value names; None for an empty value. Raises Invalid."""
    text = "" if value is None else str(value).strip()
    if not text:
        return None
    split = NAMES.get(text.lower())
    if split is None:
        raise Invalid("unknown_split", f"split '{text:.80}' is none of train, val and test")
    return split


def class_of(value: object) -> str:
    """Return the class of a row. Raises Invalid if it is empty or a list."""
    text = value.strip() if isinstance(value, str) else value
    if text is None or text == "":
        raise Invalid("no_class", "it has no class")
    if isinstance(text, (list, dict, float)) and not (isinstance(text, float) and text.is_integer()):
        raise Invalid("no_class", f"its class is {text!r:.80}, expected a name or a number")
    return str(int(text)) if isinstance(text, float) else str(text)


def classes_of(value: object) -> list[str]:
    """Return the classes of a row: a list, a JSON list, or text separated by `|`, `;` or `,`, whichever comes first."""
    if isinstance(value, str):
        if value.lstrip().startswith("["):
            try:
                value = json.loads(value)
            except ValueError:
                raise Invalid("no_class", f"its classes are not a JSON list: {value:.80}") from None
        else:
            separator = next((mark for mark in "|;," if mark in str(value)), "|")
            value = [part for part in str(value).split(separator) if part.strip()]
    listed = value if isinstance(value, list) else [] if value is None else [value]
    return [class_of(one) for one in listed]


def captions_of(value: object) -> list[str]:
    """Return the texts of a row."""
    listed = value if isinstance(value, list) else [] if value is None else [value]
    return [str(text) for text in listed if str(text).strip()]


def objects_of(value: object) -> dict[str, list[Any]]:
    """Return boxes and classes of an object {bbox: [[x, y, width, height], ...], categories: [...]}.

    Hugging Face's image folders have it. Raises Invalid.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise Invalid("invalid_box", f"its objects are not JSON: {value!r:.80}") from None
    if value is None:
        return {"boxes": [], "classes": []}
    if not isinstance(value, dict):
        raise Invalid("invalid_box", f"its objects are a {type(value).__name__}, expected an object with bbox")
    boxes: Any = value.get("bbox", value.get("boxes", []))
    names: Any = next((value[key] for key in ("categories", "category", "label", "labels") if key in value), [])
    well_formed = isinstance(boxes, list) and all(
        isinstance(box, list) and len(box) == 4 and all(isinstance(side, (int, float)) for side in box) for box in boxes
    )
    if not well_formed or not isinstance(names, list) or len(names) != len(boxes):
        raise Invalid("invalid_box", "its objects need one bbox of four numbers for each category")
    corners = [[x, y, x + width, y + height] for x, y, width, height in boxes]
    return {"boxes": corners, "classes": [class_of(name) for name in names]}


def field_of(field: Field, value: object) -> object:
    """Return the value of an additional column with its type. Raises Invalid if it does not fit."""
    if isinstance(value, str) and field.type != "string":
        value = _number(field, value.strip())
    fits = {
        "string": isinstance(value, str),
        "float32": isinstance(value, (int, float)),
        "float64": isinstance(value, (int, float)),
    }.get(field.type, isinstance(value, int))
    if not fits or isinstance(value, bool):
        raise Invalid("invalid_field", f"field '{field.name}' is {value!r:.80}, expected {field.type}")
    limit = _RANGES.get(field.type)
    if limit and isinstance(value, int) and not -limit <= value < limit:
        raise Invalid("invalid_field", f"field '{field.name}' is {value}, outside {field.type}")
    return value


def _number(field: Field, text: str) -> object:
    """Return a number that is written as text, or the text itself."""
    if field.type in _RANGES:
        return int(text) if re.fullmatch(r"[+-]?\d+", text, re.ASCII) else text
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) or text.lower().lstrip("+-") in ("nan", "inf", "infinity") else text
