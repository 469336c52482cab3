"""Record kind `classification`: one image and the label of its class folder."""

from dataprep.build.records import RecordKind
from dataprep.plan.store import PlannedItem
from schemas.record import RecordSchema


def encode(schema: RecordSchema, item: PlannedItem, image: bytes) -> dict[str, object]:
    """Return the row with the columns that `schema` gives the roles image, label and key."""
    return {schema.column("image"): image, schema.column("label"): item.label, schema.column("key"): item.key}


CLASSIFICATION = RecordKind(encode)
