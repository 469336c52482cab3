"""Layouts of raw images on disk. A layout is one file with scan(root, options) -> Iterator[Found]."""

from collections.abc import Callable, Iterator
from pathlib import Path

from dataprep.items import Found
from dataprep.options import WalkOptions
from dataprep.sources import class_folders, split_folders
from dataprep.sources.detect import detect_layout

__all__ = ["SOURCES", "WalkOptions", "detect_layout"]

SOURCES: dict[str, Callable[[Path, WalkOptions], Iterator[Found]]] = {
    "classes": class_folders.scan,
    "splits": split_folders.scan,
}
