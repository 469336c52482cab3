"""Record kind `unlabelled`: one image."""

from dataprep.build.records.sample import Record, RecordKind, Sample
from schemas.record import RecordSchema


def encode(schema: RecordSchema, sample: Sample) -> Record:
    """Return the record with the columns that `schema` gives the roles image and key."""
    return Record({schema.column("image"): sample.picture.data, schema.column("key"): sample.item.key})


UNLABELLED = RecordKind(encode)
