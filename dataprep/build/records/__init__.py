"""Record kinds define how an item and its image become a row. The table RECORDS lists them."""

from importlib import import_module

from dataprep.build.records.sample import RecordKind
from dataprep.errors import DataprepError

# kind -> RecordKind, or `module:object` that is imported at first use.
RECORDS: dict[str, RecordKind | str] = {
    "classification": "dataprep.build.records.classification:CLASSIFICATION",
    "multilabel": "dataprep.build.records.multilabel:MULTILABEL",
    "detection": "dataprep.build.records.detection:DETECTION",
    "segmentation": "dataprep.build.records.segmentation:SEGMENTATION",
    "caption": "dataprep.build.records.caption:CAPTION",
    "unlabelled": "dataprep.build.records.unlabelled:UNLABELLED",
}


def find_record_kind(name: str) -> RecordKind:
    """Return the record kind `name`; raise DataprepError if the table has no such kind."""
    kind = RECORDS.get(name)
    if isinstance(kind, str):
        module, _, attribute = kind.partition(":")
        kind = getattr(import_module(module), attribute)
    if not isinstance(kind, RecordKind):
        raise DataprepError(f"cannot write records of kind '{name}'; known kinds: {', '.join(RECORDS)}")
    return kind
