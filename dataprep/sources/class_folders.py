"""SOURCE/<class>/**/<image>: the folder names are the classes, the plan makes the splits."""

import os
from collections.abc import Iterator
from pathlib import Path

from dataprep.item import Folder, Found, Ignored
from dataprep.keys import path_to_key
from dataprep.sources.walk import WalkOptions, ignore_rule, walk


def scan(root: Path, options: WalkOptions) -> Iterator[Found]:
    """Every file below `root`, with its class."""
    return scan_below(str(root), "", None, options)


def scan_below(root: str, path: str, split: str | None, options: WalkOptions) -> Iterator[Found]:
    """Every file below root/path, where the folders in it are the classes of `split`."""
    with os.scandir(os.path.join(root, path)) as entries:
        top = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    for entry in top:
        below = os.path.join(path, entry.name)
        rule = ignore_rule(entry.name, options, path_to_key(below))
        if rule is None and entry.is_symlink() and entry.is_dir() and not options.follow_links:
            rule = "link to a folder"
        if rule is None and not entry.is_dir():
            rule = "not in a class folder"
        if rule:
            yield Ignored(path_to_key(below), rule)
            continue
        class_name = path_to_key(entry.name)
        yield Folder(class_name, split)
        yield from walk(root, below, class_name, split, options)
