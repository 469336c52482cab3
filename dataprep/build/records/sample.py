"""What a record kind gets and returns: a Sample becomes the columns of a row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dataprep.images.picture import Picture
from dataprep.items import Place
from dataprep.plan.store import PlannedItem
from schemas.images.policy import ImageRejected
from schemas.record import Field, RecordSchema


@dataclass(frozen=True)
class Sample:
    """An accepted image with its annotation.

    `picture` is the image after the pixel policy. `annotation` has the values that the source gave, by name. `classes`
    are the labels by class name. `read` returns the bytes of another file of the annotation, such as a mask, and raises
    ImageRejected if they cannot be read. For `boxes` and `ignore_value` see ShardOptions.
    """

    item: PlannedItem
    picture: Picture
    annotation: Mapping[str, Any]
    classes: Mapping[str, int]
    read: Callable[[Place, int, int], bytes]
    boxes: str = "clip"
    ignore_value: int = 255

    def labels(self) -> list[int]:
        """Return the labels of the classes in the annotation, in its order.

        Raises ImageRejected for an unknown class.
        """
        names = self.annotation.get("classes", [])
        unknown = [name for name in names if name not in self.classes]
        if unknown:
            raise ImageRejected("unknown_class", f"its class '{unknown[0]}' is not in the list of classes")
        return [self.classes[name] for name in names]


@dataclass(frozen=True)
class Record:
    """The values of a row by column, and the labels of its classes. `changed` names changes of the annotation."""

    values: dict[str, object]
    labels: tuple[int, ...] = ()
    changed: tuple[str, ...] = ()


def no_labels(_schema: RecordSchema, _row: Mapping[str, Any]) -> tuple[int, ...]:
    """Return no label, for a kind without classes."""
    return ()


@dataclass(frozen=True)
class RecordKind:
    """One kind of record.

    `encode` returns the record of a sample. It raises ImageRejected if the annotation is invalid. `labels` returns the
    labels of the classes in a stored row, given as read back: arrays are flat lists.
    """

    encode: Callable[[RecordSchema, Sample], Record]
    labels: Callable[[RecordSchema, Mapping[str, Any]], tuple[int, ...]] = no_labels


def additional_values(schema: RecordSchema, annotation: Mapping[str, Any]) -> dict[str, object]:
    """Return the values of the columns without a role. Raises ImageRejected if one is missing."""
    given = annotation.get("fields", {})
    values: dict[str, object] = {}
    for column in schema.additional_fields:
        if given.get(column.name) is None:
            raise ImageRejected("missing_field", f"it has no value for the field '{column.name}'")
        values[column.name] = _typed(column, given[column.name])
    return values


def _typed(column: Field, value: Any) -> object:
    """Return a JSON value as the row writer expects it; the writer checks type and range."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if whole and column.type.startswith("float") else value
