"""The archives of SOURCE: one file, or the files in a folder and the folders in it."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dataprep.items import ClosedFolder, Ignored, ScanEntry, portable_path
from dataprep.sources.split_folders import split_names
from dataprep.sources.walk import LINK, Tree
from schemas.names import path_to_key

TAR_NAMES = re.compile(r"\.(?:tar|tar\.(?:gz|bz2|xz|zst|zstd)|tgz|tbz2?|txz|tzst)$", re.IGNORECASE)
_NUMBER = re.compile(r"(?:^|[-_. ])\d+(?:[-_. ]?of[-_. ]?\d+)?$|\d+$", re.IGNORECASE)


class ArchiveFile(NamedTuple):
    """An archive: its path below the folder of SOURCE, and the folder in which its members are, as if unpacked."""

    path: str
    prefix: str

    @property
    def stem(self) -> str:
        """The name without folders and suffix."""
        return TAR_NAMES.sub("", self.path.rpartition("/")[2])


def base_of(root: Path) -> bytes:
    """Return the folder of SOURCE, which paths of containers are relative to."""
    folder = root.absolute().parent if root.is_file() else root.absolute()
    return os.fsencode(folder)


def find_archives(tree: Tree, root: Path, names: re.Pattern[str]) -> Iterator[ArchiveFile | ScanEntry]:
    """Yield the archives of SOURCE in order, and what is beside them.

    Archives in a folder have its name as prefix. Archives whose names, without numbers, are those of splits have these
    names as prefixes: train-000.tar and val-000.tar.
    """
    if root.is_file():
        yield ArchiveFile(portable_path(root.name), "")
        return
    paths = []
    for found in _files(tree, "", names):
        if isinstance(found, str):
            paths.append(found)
        else:
            yield found
    bases = {path: _NUMBER.sub("", TAR_NAMES.sub("", path.rpartition("/")[2])) for path in paths}
    splits = split_names(sorted(set(bases.values())))
    are_splits = (
        "train" in splits.values() and len(set(splits.values())) > 1 and len(splits) == len(set(bases.values()))
    )
    for path in sorted(paths):
        folder = path.rpartition("/")[0]
        yield ArchiveFile(path, folder or (bases[path] if are_splits else ""))


def _files(tree: Tree, folder: str, names: re.Pattern[str]) -> Iterator[str | ScanEntry]:
    for entry in tree.sorted_entries(folder):
        if isinstance(entry, ClosedFolder):
            yield entry
            continue
        rule = tree.ignore_rule(entry.name, entry.path, entry.is_folder)
        if rule:
            yield Ignored(path_to_key(entry.path), rule)
        elif not isinstance(entry.kind, str):
            yield entry.kind
        elif entry.kind == LINK and not tree.follow_links:
            yield Ignored(path_to_key(entry.path), LINK)
        elif entry.is_folder:
            if folder:
                yield Ignored(path_to_key(entry.path), "a folder below the archives")
            else:
                yield from _files(tree, entry.path, names)
        elif names.search(entry.name):
            yield entry.path
        else:
            yield Ignored(path_to_key(entry.path), "not an archive")
