"""SOURCE/{train,val,test}/<class>/**/<image>: the folders are the splits."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from dataprep.errors import DataprepError
from dataprep.items import ClosedFolder, Ignored, Notice, ScanEntry
from dataprep.options import WalkOptions
from dataprep.sources.class_folders import scan_below
from dataprep.sources.walk import Tree
from schemas.names import path_to_key

# Split names of public datasets, in any case.
NAMES = {
    "train": "train", "training": "train", "trn": "train",
    "val": "val", "valid": "val", "validation": "val", "validate": "val", "dev": "val", "devel": "val",
    "development": "val", "eval": "val", "evaluation": "val",
    "test": "test", "testing": "test", "tst": "test", "holdout": "test", "hold-out": "test", "hold_out": "test",
    "训练": "train", "验证": "val", "测试": "test",
}  # fmt: skip
# As in train_images, validation-set, Test Data, trainset.
_OTHER_WORDS = r"(?:[ _.-]?(?:data(?:set)?|set|images?|imgs?|split|folder|集|数据))*"
_EXACT = re.compile(rf"({'|'.join(NAMES)}){_OTHER_WORDS}", re.IGNORECASE)
# seg_train, train2017: only if another folder has the same name except for the split.
_REST = rf"({_OTHER_WORDS}(?:[ _.-]?\d+|[ _.-].*|(?-i:[A-Z]))?)"
_WITHIN = re.compile(rf"(.*[ _.-])?({'|'.join(NAMES)}){_REST}", re.IGNORECASE)
_COUNTED = re.compile(r"\d+[ _.-]+")  # 1_train, 2_val
# Short names, which may also be language codes: only if the content of the folders confirms it.
_SHORT = {"tr": "train", "va": "val", "te": "test", "ts": "test"}
_SHORT_WITHIN = re.compile(rf"(.*[ _.-])?({'|'.join(_SHORT)}){_REST}", re.IGNORECASE)


def split_names(names: Iterable[str]) -> dict[str, str]:
    """Return the splits of these folders, by name. Folders that are not splits are omitted."""
    splits: dict[str, str] = {}
    alike: dict[tuple[str, str], dict[str, str]] = {}
    for name in names:
        exact, within = _EXACT.fullmatch(name.strip()), _WITHIN.fullmatch(name)
        if exact:
            splits[name] = NAMES[exact[1].lower()]
        elif within:
            before = within[1] or ""
            rest = ("" if _COUNTED.fullmatch(before) else before.lower(), within[3].lower())
            alike.setdefault(rest, {})[name] = NAMES[within[2].lower()]
    for group in alike.values():
        if "train" in group.values() and len(set(group.values())) > 1:
            splits.update(group)
    return splits


def likely_split_names(names: Iterable[str]) -> dict[str, str]:
    """Return the probable splits of these folders, by part of the name or by short names (tr, te).

    The result is empty without both train and another split. The content of the folders or the user must confirm it.
    """
    words = {**NAMES, **_SHORT}
    matched = {name: _WITHIN.fullmatch(name) or _SHORT_WITHIN.fullmatch(name) for name in names}
    splits = {name: words[match[2].lower()] for name, match in matched.items() if match}
    return splits if "train" in splits.values() and len(set(splits.values())) > 1 else {}


def scan(root: Path, options: WalkOptions) -> Iterator[ScanEntry]:
    """Yield every file below `root`, with split and class.

    Raises DataprepError if two folders are the same split.
    """
    tree = Tree(root, options)
    top = tree.sorted_entries("")
    names = [entry.name for entry in top if not isinstance(entry, ClosedFolder) and entry.is_folder]
    splits = split_names(names)
    if "train" not in splits.values():
        splits = likely_split_names(names) or splits
    folders: dict[str, str] = {}
    for entry in top:
        if isinstance(entry, ClosedFolder):
            yield entry
            continue
        split = splits.get(entry.name)
        rule = tree.ignore_rule(entry.name, entry.path, entry.is_folder)
        if rule is None and not isinstance(entry.kind, str):
            yield entry.kind
            continue
        if rule or split is None or not entry.is_folder:
            if rule is None and entry.is_folder:
                yield Notice(f"the folder '{entry.name}' is ignored, because its name is not that of a split")
            yield Ignored(path_to_key(entry.path), rule or "not in a split folder")
            continue
        if split in folders:
            raise DataprepError(
                f"SOURCE has both '{folders[split]}' and '{entry.name}' for the split {split}; keep one, or ignore one "
                f"with --ignore '/{entry.name}/'"
            )
        folders[split] = entry.name
        yield from scan_below(tree, entry.path, split)
    yield from tree.notices()
