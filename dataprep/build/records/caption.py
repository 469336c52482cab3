"""Record kind `caption`: one image and the texts that describe it, as a JSON list in a string column."""

import json

from dataprep.build.records.sample import Record, RecordKind, Sample
from schemas.images.policy import ImageRejected
from schemas.record import RecordSchema


def encode(schema: RecordSchema, sample: Sample) -> Record:
    """Return the record with the columns that `schema` gives the roles image, captions and key.

    The annotation has a list `captions` of texts. Raises ImageRejected if there is none.
    """
    captions = [text for text in sample.annotation.get("captions", []) if text.strip()]
    if not captions:
        raise ImageRejected("no_caption", "it has no caption")
    values = {
        "image": sample.picture.data,
        "captions": json.dumps(captions, ensure_ascii=False),
        "key": sample.item.key,
    }
    return Record({schema.column(role): value for role, value in values.items()})


CAPTION = RecordKind(encode)
