"""Detect the layout of SOURCE from folder names. Raise an error if the layout is ambiguous."""

import os
import re
import shlex
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from dataprep.errors import DataprepError, SourceEmpty
from dataprep.items import ClosedFolder
from dataprep.options import SourceOptions
from dataprep.sources import SOURCES, find_source
from dataprep.sources.closed import check_temporary, reject_closed
from dataprep.sources.ignore import pattern_of
from dataprep.sources.split_folders import likely_split_names, split_names
from dataprep.sources.walk import Tree
from schemas.counting import are, many
from schemas.names import path_to_key
from schemas.record import load_schema, schema_names

# A folder with split folders has few entries, so folders with many entries are classes.
_LOOK_INTO_FOLDERS = 50
_LOOK_AT_ENTRIES = 60
_NEEDED = {
    "class": "a class per image",
    "classes": "a list of classes per image",
    "boxes": "boxes",
    "mask": "a mask per image",
    "captions": "captions",
}
_FOLDER_LAYOUTS = ("classes", "splits")  # told apart by the names of folders
_NAMED = 4
# Names of parts of a dataset that are not splits: fold1, batch_02, set A.
_PARTS = re.compile(
    r"(?:.*[ _.-])?(?:k?folds?|splits?|parts?|batch|subset|set|cv|chunk)[ _.-]?(?:\d+|[a-e])", re.IGNORECASE
)


def detect_layout(root: Path, options: SourceOptions, requested: str = "auto") -> str:
    """Return the requested layout, or detect it if `auto`.

    Raises DataprepError if SOURCE has no known layout or an ambiguous one, or if the layout does not fit the record
    kind. Raises DataRejected or TryLater if SOURCE cannot be listed.
    """
    layout = requested if requested not in ("auto", *_FOLDER_LAYOUTS) else None
    if layout is None and requested == "auto":
        recognised = [name for name in SOURCES if _recognised(name, root)]
        if len(recognised) > 1:
            raise DataprepError(
                f"SOURCE {root} is ambiguous: it may be of layout {' or '.join(recognised)}; choose one with --layout"
            )
        layout = recognised[0] if recognised else None
    if layout is None and root.is_file():
        known = "; ".join(f"{name}: {find_source(name).expected}" for name in SOURCES)
        raise DataprepError(f"SOURCE {root} is a file of no known layout; expected one of: {known}")
    layout = layout or _detect_folders(root, options, requested)
    _check_kind(root, layout, options)
    return layout


def _recognised(layout: str, root: Path) -> bool:
    try:
        return find_source(layout).recognises(root)
    except OSError:  # the scan reports a SOURCE that cannot be read
        return False


def _check_kind(root: Path, layout: str, options: SourceOptions) -> None:
    """Raise DataprepError if the source cannot supply what the schema needs."""
    source = find_source(layout)
    if options.needs not in (None, *source.gives):
        schemas = [name for name in schema_names() if load_schema(name).needs in (None, *source.gives)]
        raise DataprepError(
            f"the records need {_NEEDED[str(options.needs)]}, and layout {layout} of SOURCE {root} has none; "
            f"use {' or '.join(f'--schema {name}' for name in schemas)}"
        )
    if options.fields and not source.gives_fields:
        raise DataprepError(
            f"SOURCE {root} of layout {layout} has no values for the field '{options.fields[0].name}'; remove the "
            "field from the schema, or use a layout that has columns, such as a table"
        )


def _detect_folders(root: Path, options: SourceOptions, requested: str) -> str:
    """Return `splits` if all folders have names of splits and one of them is train, else `classes`."""
    tree = Tree(root, options)
    folders, ignored, others = _top(tree, root)
    if ignored and not folders:
        raise DataprepError(
            f"SOURCE {root} has no folder left: --ignore matches {many(ignored, 'folder')}; use other patterns"
        )
    if not folders:
        raise SourceEmpty(
            f"SOURCE {root} has no folder{_flat(root, others)}; expected SOURCE/<class>/<image> or "
            "SOURCE/train/<class>/<image>"
        )
    if requested != "auto":
        return requested
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
    """Return the folder names in SOURCE, the number of folders that --ignore matches, and that of other entries."""
    folders, ignored, others = [], 0, 0
    for entry in tree.sorted_entries(""):
        if isinstance(entry, ClosedFolder):
            reject_closed(root, [check_temporary(root, entry)])
            continue
        rule = tree.ignore_rule(entry.name, entry.path, entry.is_folder)
        if rule is None:
            folders += [entry.name] if entry.is_folder else []
            others += not entry.is_folder
        ignored += entry.is_folder and rule is not None and rule.startswith("--ignore")
    return folders, ignored, others


def _flat(root: Path, files: int) -> str:
    """Return the hint for the most common mistake: SOURCE is a class folder, not the folder of classes."""
    own = many(files, "file")
    return f", only {own}: use the folder above it, {root.absolute().parent}" if files else ""


def _beside(root: Path, splits: dict[str, str], rest: list[str]) -> str:
    """Return the message for split folders beside other folders."""
    ignore = " ".join(f"--ignore {shlex.quote(pattern_of(path_to_key(name)))}" for name in rest[:3]) + (
        " ..." if len(rest) > 3 else ""
    )
    return (
        f"SOURCE {root} is ambiguous: the folder{'s' * (len(splits) > 1)} {_some(list(splits))} may be splits, "
        f"but {_some(rest)} {are(len(rest))} not. If they are splits, ignore the rest: "
        f"--layout splits {ignore}. If all {len(splits) + len(rest)} folders are classes: --layout classes"
    )


def _without_train(root: Path, splits: list[str]) -> str:
    return (
        f"SOURCE {root} is ambiguous: its folder{'s' * (len(splits) > 1)} {_some(splits)} may be splits, "
        "but none of them is train. If they are splits, add the folder train, or list the classes: "
        "--layout splits --classes FILE. If they are classes: --layout classes"
    )


def _check_once(root: Path, splits: dict[str, str]) -> None:
    """Raise DataprepError if two folders have names of the same split, such as trainA and trainB."""
    first: dict[str, str] = {}
    for name, split in splits.items():
        first.setdefault(split, name)
    more = [name for name in splits if name not in first.values()]
    if more:
        ignore = " ".join(f"--ignore {shlex.quote(pattern_of(path_to_key(name)))}" for name in more)
        raise DataprepError(
            f"SOURCE {root} is ambiguous: {_some(list(splits))} may be splits, but one split has "
            f"several folders. If they are splits, keep one folder per split: --layout splits {ignore}. If all "
            f"{len(splits)} folders are classes: --layout classes"
        )


def _check_parts(tree: Tree, root: Path, folders: list[str]) -> None:
    """Raise DataprepError if all folders have names of dataset parts and contain the same folder names."""
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
    example = os.path.join(root, folders[0])
    split_command = (
        "If they are splits: --layout splits"
        if is_split
        else f"If they are parts of one dataset, use one of them as SOURCE, such as {example}, or move them so that "
        "SOURCE has the folders train and val, with the classes in each"
    )
    raise DataprepError(
        f"SOURCE {root} is ambiguous: its folders {_some(folders)} all contain {_some(sorted(shared))}, which "
        f"may be the classes. {split_command}. If {_some(folders)} are the classes: --layout classes"
    )


def _check_depth(tree: Tree, root: Path, folders: list[str]) -> None:
    """Raise DataprepError if a class folder contains split folders, or the only class folder contains folders."""
    for name in folders[:_LOOK_INTO_FOLDERS]:
        inside, count = _folders_in(tree, name)
        if count > _LOOK_AT_ENTRIES:
            continue
        splits = split_names(inside)
        whole = len(folders) == 1 and count == len(inside) > 1  # the only class folder contains only folders
        if whole or ("train" in splits.values() and len(set(splits.values())) > 1):
            may_be = "classes or splits" if whole else "splits"
            raise DataprepError(
                f"SOURCE {root} is ambiguous: its folder '{name}' contains {_some(list(splits) or inside)}, "
                f"which may be {may_be}. If '{name}' is a dataset, use it as SOURCE: {os.path.join(root, name)}. If "
                f"'{name}' is a class: --layout classes, which ignores the structure below it"
            )


def _check_split_depth(tree: Tree, root: Path, splits: Iterable[str]) -> None:
    """Raise DataprepError if the only folder in a split contains only folders, which may be the classes."""
    for split in splits:
        folders, count = _folders_in(tree, split)
        if len(folders) != 1 or count != 1:
            continue
        only = os.path.join(split, folders[0])
        names, count = _folders_in(tree, only)
        if names and count == len(names):
            raise DataprepError(
                f"SOURCE {root} is ambiguous: '{only}', the only folder in '{split}', contains {_some(names)}, "
                f"which may be the classes. If they are, move them up into '{split}', in each split. If "
                f"'{folders[0]}' is the only class: --layout splits"
            )


def _folders_in(tree: Tree, folder: str) -> tuple[list[str], int]:
    """Return the folder names among the first entries, and the number of entries read.

    At most _LOOK_AT_ENTRIES + 1 entries are read.
    """
    entries = list(islice(tree.entries(folder), _LOOK_AT_ENTRIES + 1))
    return sorted(e.name for e in entries if not isinstance(e, ClosedFolder) and e.is_folder), len(entries)


def _some(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:_NAMED]) + (
        f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    )
