"""Match the image files below a folder with the images that annotations list."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dataprep.items import Ignored, Item, Notice, Reject, ScanEntry, key_to_path, portable_path
from dataprep.sources.walk import Tree, ancestors, walk
from schemas.counting import are, many
from schemas.images.policy import ImageRejected
from schemas.names import path_to_key

UNLISTED = "not in the annotations"

_T = TypeVar("_T")


@dataclass(frozen=True)
class Location:
    """Where images are: below the folder `root`, which may differ from `base`, the folder of SOURCE."""

    base: Path
    root: Path

    def place(self, path: str) -> str:
        """Return a path below `root` as a path below `base`; absolute if `root` is elsewhere."""
        root, base = (portable_path(folder.absolute()) for folder in (self.root, self.base))
        prefix = os.path.relpath(root, base)
        if prefix == ".":
            return path
        return os.path.join(root if prefix.split("/")[0] == ".." else prefix, path)

    def placed(self, item: Item) -> Item:
        """Return an item of a walk below `root` with its place."""
        path = key_to_path(item.key)
        place = self.place(path)
        return item if place == path else item._replace(place=place)


class Tally:
    """Counts keys of one kind and keeps the first in sorting order, for a notice."""

    def __init__(self) -> None:
        self.count = 0
        self.first = ""

    def add(self, key: str) -> None:
        """Count a key."""
        self.first = min(self.first, key) if self.count else key
        self.count += 1

    def notice(self, noun: str, rest: str) -> Iterator[Notice]:
        """Yield `3 images are <rest>; the first is ...` if any key was counted."""
        if self.count:
            yield Notice(f"{many(self.count, noun)} {are(self.count)} {rest}; the first is '{self.first}'")


def walk_below(tree: Tree, folder: str) -> Iterator[ScanEntry]:
    """Yield every file below a folder of the tree, without class and split."""
    above = ancestors(tree, folder)
    if isinstance(above, frozenset):
        yield from walk(tree, folder, "", None, above)
    else:
        yield above


def match_listed(
    tree: Tree, folders: list[str], listed: dict[str, _T], make: Callable[[Item, _T], Item]
) -> Iterator[ScanEntry]:
    """Yield the files below `folders` and the listed images without a file. `listed` is by key, and is emptied.

    A listed image becomes the item that `make` returns, or a Reject if it raises ImageRejected.
    """
    unlisted, hidden = Tally(), Tally()
    for folder in folders:
        for entry in walk_below(tree, folder):
            if isinstance(entry, Item):
                found = listed.pop(entry.key, None)
                if found is None:
                    unlisted.add(entry.key)
                    yield Ignored(entry.key, UNLISTED)
                else:
                    yield made(entry, found, make)
            else:
                if isinstance(entry, Reject | Ignored):
                    listed.pop(entry.key, None)
                yield entry
    for key in listed:
        if os.path.lexists(tree.on_disk(key_to_path(key))):
            hidden.add(key)
        else:
            yield missing(key)
    listed.clear()
    yield from unlisted.notice("image", "in SOURCE but not in the annotations, and ignored")
    yield from hidden.notice(
        "annotated image", "in folders that are ignored or, without --follow-links, are links to folders"
    )


def made(item: Item, found: _T, make: Callable[[Item, _T], Item]) -> Item | Reject:
    """Return the item that `make` returns, or a Reject if it raises ImageRejected."""
    try:
        return make(item, found)
    except ImageRejected as error:
        return Reject(item.key, error.reason, error.detail, item.size)


def missing(key: str) -> Reject:
    """Return the Reject of a listed image without a file."""
    return Reject(key, "missing_file", "the annotations list it, but there is no such file")


def by_stem(items: list[Item], folder: str) -> dict[str, list[Item]]:
    """Return the items by their path below `folder` without extension."""
    stems: dict[str, list[Item]] = {}
    for item in items:
        path = key_to_path(item.key).removeprefix(f"{folder}/")
        stems.setdefault(os.path.splitext(path)[0], []).append(item)
    return stems


def same_stem(items: list[Item], what: str) -> Iterator[Reject]:
    """Yield a Reject for each of several files whose paths differ only in the extension."""
    names = ", ".join(sorted(item.key for item in items))
    for item in items:
        yield Reject(item.key, "duplicate_annotation", f"several {what} have one name: {names}", item.size)


def join(folder: str, name: str) -> str | None:
    """Return the path of a name in a list, relative to the same root as `folder`; None if it is above the root."""
    path = os.path.normpath(os.path.join(folder, name))
    outside = os.path.isabs(path) or path.split("/")[0] == ".."
    return None if outside else path


def outside(name: str) -> Reject:
    """Return the Reject of a listed path that is not below the folder of the images."""
    return Reject(path_to_key(name), "outside_source", "its path is not below the folder of the images; see --root")
