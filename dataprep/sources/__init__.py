"""Layouts of raw images on disk, one file per layout.

Each file has a function scan(root, options) -> Iterator[ScanEntry].
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from dataprep.items import ScanEntry
from dataprep.options import WalkOptions
from dataprep.sources import class_folders, split_folders

SOURCES: dict[str, Callable[[Path, WalkOptions], Iterator[ScanEntry]]] = {
    "classes": class_folders.scan,
    "splits": split_folders.scan,
}
