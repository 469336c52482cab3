"""Layouts of raw images on disk. A layout is one file with scan(root, options) -> Iterator[Found]."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from dataprep.errors import DataprepError
from dataprep.item import Found
from dataprep.sources import class_folders, split_folders
from dataprep.sources.walk import WalkOptions, ignore_rule

SOURCES: dict[str, Callable[[Path, WalkOptions], Iterator[Found]]] = {
    "classes": class_folders.scan,
    "splits": split_folders.scan,
}


def detect_layout(root: Path, options: WalkOptions) -> str:
    """The layout of `root`: `splits` when every folder in it is named after a split and one is for training.

    Raises DataprepError when there is no folder to read.
    """
    try:
        with os.scandir(root) as entries:
            seen = [(entry.name, entry.is_dir()) for entry in entries if not ignore_rule(entry.name, options)]
    except OSError as error:
        raise DataprepError(f"cannot list SOURCE {root}: {error.strerror}") from None
    folders = [name for name, is_folder in seen if is_folder]
    if not folders:
        raise DataprepError(
            f"SOURCE {root} has no folder{_flat(root, len(seen))}; expected SOURCE/<class>/<image> or "
            "SOURCE/train/<class>/<image>"
        )
    splits = [split_folders.NAMES.get(name.lower()) for name in folders]
    return "splits" if "train" in splits and None not in splits else "classes"


def _flat(root: Path, files: int) -> str:
    """The commonest mistake: a class folder given for the folder of classes."""
    return f", but {files:,} files of its own: give the folder above it, {root.absolute().parent}" if files else ""
