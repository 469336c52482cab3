"""Record kind `multilabel`: one image and its classes, as a multi-hot array or as a list of labels."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dataprep.build.records.sample import Record, RecordKind, Sample
from schemas.images.policy import ImageRejected
from schemas.record import RecordSchema


def encode(schema: RecordSchema, sample: Sample) -> Record:
    """Return the record with the columns that `schema` gives the roles image, multi_hot or labels, and key.

    The annotation has a list `classes` of class names, which may be empty for a multi-hot array. MindDataset cannot
    read an array without elements (measured on 2.10), so an image without a class has no list of labels. Raises
    ImageRejected for such an image and for an unknown class.
    """
    labels = sorted(set(sample.labels()))
    if schema.has_role("multi_hot"):
        array = np.zeros(len(sample.classes), np.int32)
        array[labels] = 1
        column = schema.column("multi_hot")
    else:
        array = np.array(labels, np.int32)
        column = schema.column("labels")
        if not labels:
            raise ImageRejected("no_class", "it has no class, and a list of labels cannot be empty")
    values: dict[str, object] = {
        schema.column("image"): sample.picture.data,
        column: array,
        schema.column("key"): sample.item.key,
    }
    return Record(values, tuple(labels))


def labels(schema: RecordSchema, row: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the labels of a stored row."""
    if schema.has_role("multi_hot"):
        return tuple(label for label, value in enumerate(row[schema.column("multi_hot")]) if value)
    return tuple(row[schema.column("labels")])


MULTILABEL = RecordKind(encode, labels)
