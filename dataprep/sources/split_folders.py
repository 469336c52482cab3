"""SOURCE/{train,val,test}/<class>/**/<image>: the folders are the splits."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from dataprep.errors import DataprepError
from dataprep.items import ClosedFolder, Found, Ignored, Notice
from dataprep.options import WalkOptions
from dataprep.sources.class_folders import scan_below
from dataprep.sources.walk import Tree
from schemas.names import path_to_key

# As public data sets name their splits, in any case.
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
# seg_train, train2017: only where another folder is called the same but for the split.
_REST = rf"({_OTHER_WORDS}(?:[ _.-]?\d+|[ _.-].*|(?-i:[A-Z]))?)"
_WITHIN = re.compile(rf"(.*[ _.-])?({'|'.join(NAMES)}){_REST}", re.IGNORECASE)
_COUNTED = re.compile(r"\d+[ _.-]+")  # 1_train, 2_val
# Too short to be taken for splits without a look into them: they are codes of languages too.
_SHORT = {"tr": "train", "va": "val", "te": "test", "ts": "test"}
_SHORT_WITHIN = re.compile(rf"(.*[ _.-])?({'|'.join(_SHORT)}){_REST}", re.IGNORECASE)


def split_names(names: Iterable[str]) -> dict[str, str]:
    """The split that each of these folders is, by its name among the others; the folders that are none are left out."""
    found: dict[str, str] = {}
    alike: dict[tuple[str, str], dict[str, str]] = {}
    for name in names:
        exact, within = _EXACT.fullmatch(name.strip()), _WITHIN.fullmatch(name)
        if exact:
            found[name] = NAMES[exact[1].lower()]
        elif within:
            before = within[1] or ""
            rest = ("" if _COUNTED.fullmatch(before) else before.lower(), within[3].lower())
            alike.setdefault(rest, {})[name] = NAMES[within[2].lower()]
    for group in alike.values():
        if "train" in group.values() and len(set(group.values())) > 1:
            found.update(group)
    return found


def likely_split_names(names: Iterable[str]) -> dict[str, str]:
    """The split that each of these folders seems to be, by a word within its name or a short one: tr, te. Empty unless
    one is for training and another is not. For folders whose content says so too, or a user.
    """
    words = {**NAMES, **_SHORT}
    matched = {name: _WITHIN.fullmatch(name) or _SHORT_WITHIN.fullmatch(name) for name in names}
    found = {name: words[match[2].lower()] for name, match in matched.items() if match}
    return found if "train" in found.values() and len(set(found.values())) > 1 else {}


def scan(root: Path, options: WalkOptions) -> Iterator[Found]:
    """Every file below `root`, with its split and class. Raises DataprepError when two folders mean one split."""
    tree = Tree(root, options)
    top = tree.sorted_entries("")
    names = [entry.name for entry in top if not isinstance(entry, ClosedFolder) and entry.is_folder]
    splits = split_names(names)
    if "train" not in splits.values():
        splits = likely_split_names(names) or splits
    seen: dict[str, str] = {}
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
                yield Notice(f"the folder '{entry.name}' is named after no split, so all in it is left out")
            yield Ignored(path_to_key(entry.path), rule or "not in a split folder")
            continue
        if split in seen:
            raise DataprepError(
                f"SOURCE has both '{seen[split]}' and '{entry.name}' for the split {split}; keep one, or leave one out "
                f"with --ignore '/{entry.name}/'"
            )
        seen[split] = entry.name
        yield from scan_below(tree, entry.path, split)
    yield from tree.notices()
