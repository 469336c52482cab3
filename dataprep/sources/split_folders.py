"""SOURCE/{train,val,test}/<class>/**/<image>: the folders are the splits."""

import os
from collections.abc import Iterator
from pathlib import Path

from dataprep.errors import DataprepError
from dataprep.item import Found, Ignored
from dataprep.keys import path_to_key
from dataprep.sources.class_folders import scan_below
from dataprep.sources.walk import WalkOptions, ignore_rule

NAMES = {"train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


def scan(root: Path, options: WalkOptions) -> Iterator[Found]:
    """Every file below `root`, with its split and class. Raises DataprepError when two folders mean one split."""
    seen: dict[str, str] = {}
    with os.scandir(root) as entries:
        top = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    for entry in top:
        split = NAMES.get(entry.name.lower())
        rule = ignore_rule(entry.name, options)
        if rule or split is None or not entry.is_dir():
            yield Ignored(path_to_key(entry.name), rule or "not in a split folder")
            continue
        if split in seen:
            raise DataprepError(f"SOURCE has both '{seen[split]}' and '{entry.name}' for the split {split}; keep one")
        seen[split] = entry.name
        yield from scan_below(str(root), entry.name, split, options)
