"""Record kinds define how an item and its image become a row. The table RECORDS lists them."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from dataprep.errors import DataprepError
from dataprep.plan.store import PlannedItem
from schemas.record import RecordSchema


@dataclass(frozen=True)
class RecordKind:
    """`encode(schema, item, image)` returns a row by column name. `image` is the file after the pixel policy."""

    encode: Callable[[RecordSchema, PlannedItem, bytes], dict[str, object]]


# kind -> RecordKind, or `module:object` that is imported at first use.
RECORDS: dict[str, RecordKind | str] = {"classification": "dataprep.build.records.classification:CLASSIFICATION"}


def find_record_kind(name: str) -> RecordKind:
    """Return the record kind `name`; raise DataprepError if the table has no such kind."""
    kind = RECORDS.get(name)
    if isinstance(kind, str):
        module, _, attribute = kind.partition(":")
        kind = getattr(import_module(module), attribute)
    if not isinstance(kind, RecordKind):
        raise DataprepError(f"cannot write records of kind '{name}'; known kinds: {', '.join(RECORDS)}")
    return kind
