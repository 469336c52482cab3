"""What a source is: a layout of raw data that can be scanned."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dataprep.items import ScanEntry
from dataprep.options import SourceOptions


def never(_root: Path) -> bool:
    """Recognise nothing: the layout is used only if it is requested."""
    return False


@dataclass(frozen=True)
class Source:
    """One layout of raw data.

    `scan` yields every image below a path, in any order, each with a unique key. `recognises` returns True if a path
    certainly has this layout; it looks at names and first bytes only. `expected` describes the layout for messages.
    `gives` are the annotations that it supplies (see RecordSchema.needs). `gives_fields` is True if it supplies values
    for additional columns. `numbers_sort` sorts class names that are all decimal numbers by value, not as text.
    `keeps_order` keeps class names in the order in which the scan yields them.
    """

    scan: Callable[[Path, SourceOptions], Iterator[ScanEntry]]
    expected: str
    recognises: Callable[[Path], bool] = never
    gives: tuple[str, ...] = ("class",)
    gives_fields: bool = False
    numbers_sort: bool = False
    keeps_order: bool = False
