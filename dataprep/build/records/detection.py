"""Record kind `detection`: one image, and the boxes and classes of its objects."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dataprep.build.records.sample import Record, RecordKind, Sample
from dataprep.images.transform import Floats, Transform
from schemas.images.policy import ImageRejected
from schemas.record import RecordSchema

# MindDataset cannot read an array without elements (measured on 2.10), so an image without objects has one of these.
PADDING_LABEL = -1
_TOLERANCE = 0.01  # pixels: rounding of decimal numbers
_ROLES = ("boxes", "labels", "iscrowd", "difficult")


def encode(schema: RecordSchema, sample: Sample) -> Record:
    """Return the record with the columns that `schema` gives the roles image, boxes, labels, iscrowd, difficult, key.

    The annotation has the lists `boxes` (left, top, right, bottom in pixels), `classes`, and perhaps `iscrowd` and
    `difficult`, all of one length, and perhaps `size`, the width and height of the image for which they were made.
    Boxes become float32 (n, 4) in pixels of the stored image. Raises ImageRejected if they cannot be used.
    """
    given = sample.annotation
    labels = sample.labels()
    transform = annotation_transform(sample)
    boxes = _as_boxes(given.get("boxes", []), len(labels))
    kept, clipped = _valid(transform.boxes(boxes), transform.final, sample.boxes)
    flags = [given.get(name) or [0] * len(labels) for name in ("iscrowd", "difficult")]
    if any(len(flag) != len(labels) for flag in flags):
        raise ImageRejected("invalid_box", "its lists of boxes and flags have different lengths")
    columns = np.array([labels, *flags], np.int32).reshape(3, -1)[:, kept]
    moved = clipped[kept]
    changed = ["box_dropped"] if not kept.all() else []
    changed += ["box_clipped"] if (np.abs(moved - transform.boxes(boxes)[kept]) > _TOLERANCE).any() else []
    found = tuple(int(label) for label in columns[0])
    if not found:
        moved = np.zeros((1, 4), np.float32)
        columns = np.array([[PADDING_LABEL], [0], [0]], np.int32)
    values = dict(zip(_ROLES, [moved, *columns], strict=True))
    row = {schema.column(role): np.ascontiguousarray(array) for role, array in values.items()}
    return Record(
        {schema.column("image"): sample.picture.data, schema.column("key"): sample.item.key, **row},
        found,
        tuple(changed),
    )


def annotation_transform(sample: Sample) -> Transform:
    """Return how the annotation is moved to the stored image.

    Raises ImageRejected if it was made for an image of another size.
    """
    size = sample.annotation.get("size")
    transform = sample.picture.transform.of_annotations(None if size is None else (int(size[0]), int(size[1])))
    if transform is None:
        width, height = sample.picture.transform.original
        stated = " x ".join(map(str, size or ()))
        raise ImageRejected(
            "size_disagrees", f"its annotation is for {stated} pixels, the image has {width} x {height}"
        )
    return transform


def _as_boxes(given: list[Any], labels: int) -> Floats:
    try:
        boxes = np.array(given, np.float32).reshape(-1, 4)
    except (TypeError, ValueError):
        raise ImageRejected("invalid_box", f"its boxes are not lists of four numbers: {given!r:.80}") from None
    if len(boxes) != labels or (given and len(given) != labels):
        raise ImageRejected("invalid_box", f"it has {len(given)} boxes and {labels} classes")
    return boxes


def _valid(boxes: Floats, size: tuple[int, int], action: str) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], Floats]:
    """Return which boxes are kept, and all boxes cut at the border of an image of this width and height.

    `boxes` come from Transform.boxes, which orders the corners of inverted boxes as NaN. Raises ImageRejected if
    `action` is reject and a box is invalid.
    """
    limits = np.array([*size, *size], np.float32)
    clipped = np.clip(boxes, 0, limits)
    finite = np.isfinite(boxes).all(axis=1)
    area = (clipped[:, 2:] - clipped[:, :2] > _TOLERANCE).all(axis=1)
    kept = finite & area
    inside = kept & (np.abs(clipped - boxes) <= _TOLERANCE).all(axis=1)
    if action == "reject" and not inside.all():
        number = int(np.flatnonzero(~inside)[0])
        corners = ", ".join(f"{value:g}" for value in boxes[number])
        raise ImageRejected("invalid_box", f"box {number} ({corners}) is not inside {size[0]} x {size[1]} pixels")
    return kept, clipped


def labels(schema: RecordSchema, row: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the labels of the objects in a stored row."""
    return tuple(label for label in row[schema.column("labels")] if label != PADDING_LABEL)


DETECTION = RecordKind(encode, labels)
