"""Tells the layout of SOURCE by the names of its folders, and asks where they can be read in two ways."""

import os
import re
import shlex
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from dataprep.errors import DataprepError, SourceEmpty
from dataprep.items import ClosedFolder
from dataprep.options import WalkOptions
from dataprep.sources.closed import check_passing, refuse_closed
from dataprep.sources.ignore import pattern_of
from dataprep.sources.split_folders import likely_split_names, split_names
from dataprep.sources.walk import Tree
from schemas.counting import are, many
from schemas.names import path_to_key

# Split folders lie beside each other and little else, so a folder of many entries, as a class is, holds none.
_LOOK_INTO_FOLDERS = 50
_LOOK_AT_ENTRIES = 60
_NAMED = 4
# Parts of one set that are no splits by their names: fold1, batch_02, set A.
_PARTS = re.compile(
    r"(?:.*[ _.-])?(?:k?folds?|splits?|parts?|batch|subset|set|cv|chunk)[ _.-]?(?:\d+|[a-e])", re.IGNORECASE
)


def detect_layout(root: Path, options: WalkOptions, asked: str = "auto") -> str:
    """The layout of `root` as asked; for `auto`, `splits` when all folders are named after splits and one is for
    training.

    Raises DataprepError when there is no folder to read, or when the folders can be read in two ways; DataRejected or
    TryLater when SOURCE cannot be listed.
    """
    tree = Tree(root, options)
    folders, left_out, others = _top(tree, root)
    if left_out and not folders:
        raise DataprepError(
            f"SOURCE {root} has no folder left: --ignore leaves out {many(left_out, 'folder')}; give other patterns"
        )
    if not folders:
        raise SourceEmpty(
            f"SOURCE {root} has no folder{_flat(root, others)}; expected SOURCE/<class>/<image> or "
            "SOURCE/train/<class>/<image>"
        )
    if asked != "auto":
        return asked
    splits = split_names(folders)
    rest = [name for name in folders if name not in splits]
    if "train" in splits.values():
        if rest:
            raise DataprepError(_beside(root, splits, rest))
        _check_once(root, splits)
        _check_split_depth(tree, root, splits)
        return "splits"
    if not rest:
        raise DataprepError(_without_train(root, list(splits)))
    _check_depth(tree, root, folders)
    _check_parts(tree, root, folders)
    return "classes"


def _top(tree: Tree, root: Path) -> tuple[list[str], int, int]:
    """The names of the folders in SOURCE, how many folders --ignore leaves out, and how many other entries there are
    that are not ignored.
    """
    folders, left_out, others = [], 0, 0
    for entry in tree.sorted_entries(""):
        if isinstance(entry, ClosedFolder):
            refuse_closed(root, [check_passing(root, entry)])
            continue
        rule = tree.ignore_rule(entry.name, entry.path, entry.is_folder)
        if rule is None:
            folders += [entry.name] if entry.is_folder else []
            others += not entry.is_folder
        left_out += entry.is_folder and rule is not None and rule.startswith("--ignore")
    return folders, left_out, others


def _flat(root: Path, files: int) -> str:
    """The commonest mistake: a class folder given for the folder of classes."""
    own = many(files, "file")
    return f", but {own} of its own: give the folder above it, {root.absolute().parent}" if files else ""


def _beside(root: Path, splits: dict[str, str], rest: list[str]) -> str:
    """What to say of split folders that are not alone."""
    ignore = " ".join(f"--ignore {shlex.quote(pattern_of(path_to_key(name)))}" for name in rest[:3]) + (
        " ..." if len(rest) > 3 else ""
    )
    return (
        f"SOURCE {root} can be read in two ways: the folder{'s' * (len(splits) > 1)} {_some(list(splits))} may be "
        f"splits, but {_some(rest)} {are(len(rest))} not. If they are splits, leave out the rest: "
        f"--layout splits {ignore}. If all {len(splits) + len(rest)} folders are classes: --layout classes"
    )


def _without_train(root: Path, splits: list[str]) -> str:
    return (
        f"SOURCE {root} can be read in two ways: its folder{'s' * (len(splits) > 1)} {_some(splits)} may be splits, "
        "but none of them is for training. If they are splits, add the folder train, or name the classes: "
        "--layout splits --classes FILE. If they are classes: --layout classes"
    )


def _check_once(root: Path, splits: dict[str, str]) -> None:
    """Raise DataprepError when two folders are named after one split, as trainA and trainB are."""
    first: dict[str, str] = {}
    for name, split in splits.items():
        first.setdefault(split, name)
    more = [name for name in splits if name not in first.values()]
    if more:
        ignore = " ".join(f"--ignore {shlex.quote(pattern_of(path_to_key(name)))}" for name in more)
        raise DataprepError(
            f"SOURCE {root} can be read in two ways: {_some(list(splits))} may be splits, more than one folder for "
            f"one of them. If they are, keep one folder per split: --layout splits {ignore}. If all {len(splits)} "
            "folders are classes: --layout classes"
        )


def _check_parts(tree: Tree, root: Path, folders: list[str]) -> None:
    """Raise DataprepError when all folders are named like parts of one set, and hold folders of the same names."""
    splits = likely_split_names(folders)
    is_split = len(splits) == len(folders)
    if len(folders) < 2 or not (is_split or all(_PARTS.fullmatch(name) for name in folders)):
        return
    shared: set[str] | None = None
    for name in folders[:_LOOK_INTO_FOLDERS]:
        inside = set(_folders_in(tree, name)[0])
        shared = inside if shared is None else shared & inside
    if not shared:
        return
    one = os.path.join(root, folders[0])
    split_command = (
        "If they are splits: --layout splits"
        if is_split
        else f"If they are parts of one set, give one of them as SOURCE, as in {one}, or move them so that SOURCE has "
        "the folders train and val, with the classes in each"
    )
    raise DataprepError(
        f"SOURCE {root} can be read in two ways: its folders {_some(folders)} all hold {_some(sorted(shared))}, which "
        f"may be the classes. {split_command}. If {_some(folders)} are the classes: --layout classes"
    )


def _check_depth(tree: Tree, root: Path, folders: list[str]) -> None:
    """Raise DataprepError when the folders that would be classes hold split folders, or the only one holds classes."""
    for name in folders[:_LOOK_INTO_FOLDERS]:
        inside, count = _folders_in(tree, name)
        if count > _LOOK_AT_ENTRIES:
            continue
        splits = split_names(inside)
        whole = len(folders) == 1 and count == len(inside) > 1  # the only class, in which lie folders only
        if whole or ("train" in splits.values() and len(set(splits.values())) > 1):
            may_be = "classes or splits" if whole else "splits"
            raise DataprepError(
                f"SOURCE {root} can be read in two ways: its folder '{name}' holds {_some(list(splits) or inside)}, "
                f"which may be {may_be}. If '{name}' is a whole set, give it as SOURCE: {os.path.join(root, name)}. If "
                f"'{name}' is a class: --layout classes, which takes no notice of the folders within it"
            )


def _check_split_depth(tree: Tree, root: Path, splits: Iterable[str]) -> None:
    """Raise DataprepError when the only folder in a split holds folders only: they are the classes, not it."""
    for split in splits:
        folders, count = _folders_in(tree, split)
        if len(folders) != 1 or count != 1:
            continue
        only = os.path.join(split, folders[0])
        names, count = _folders_in(tree, only)
        if names and count == len(names):
            raise DataprepError(
                f"SOURCE {root} can be read in two ways: '{only}', the only folder in '{split}', holds {_some(names)}, "
                f"which may be the classes. If they are, move them up into '{split}', and so in each split. If "
                f"'{folders[0]}' is the only class: --layout splits"
            )


def _folders_in(tree: Tree, folder: str) -> tuple[list[str], int]:
    """The names of the folders among the first entries of a folder, and how many entries were looked at: one more than
    _LOOK_AT_ENTRIES where there are more.
    """
    entries = list(islice(tree.entries(folder), _LOOK_AT_ENTRIES + 1))
    return sorted(e.name for e in entries if not isinstance(e, ClosedFolder) and e.is_folder), len(entries)


def _some(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:_NAMED]) + (
        f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    )
