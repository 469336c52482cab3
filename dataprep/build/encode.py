"""An item and its image to a row: one function a kind of record schema."""

from collections.abc import Callable
from typing import Any

from dataprep.plan.store import PlannedItem
from schemas.record import RecordSchema

Encoder = Callable[[RecordSchema, PlannedItem, bytes], dict[str, Any]]


def encode_classification(schema: RecordSchema, item: PlannedItem, image: bytes) -> dict[str, Any]:
    """image, label, key under the schema's own names."""
    return {schema.column("image"): image, schema.column("label"): item.label, schema.column("key"): item.key}


ENCODERS: dict[str, Encoder] = {"classification": encode_classification}
