"""Record kind `classification`: one image and the label of its class."""

from collections.abc import Mapping
from typing import Any

from dataprep.build.records.sample import Record, RecordKind, Sample
from schemas.record import RecordSchema


def encode(schema: RecordSchema, sample: Sample) -> Record:
    """Return the record with the columns that `schema` gives the roles image, label and key."""
    label = sample.item.label
    values = {"image": sample.picture.data, "label": label, "key": sample.item.key}
    return Record({schema.column(role): value for role, value in values.items()}, (label,))


def labels(schema: RecordSchema, row: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the label of a stored row."""
    return (row[schema.column("label")],)


CLASSIFICATION = RecordKind(encode, labels)
