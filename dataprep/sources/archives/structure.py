"""Find the classes and splits in the folders of an archive."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dataprep.errors import DataprepError
from dataprep.items import FoundClass
from dataprep.sources.split_folders import split_names
from schemas.names import path_to_key

_NAMED = 4


@dataclass(frozen=True)
class Structure:
    """Where the classes are: below the folder `top`, and below those of `splits` (folder -> split) if it has any.

    `top` is a common folder of all members, which is not part of keys; it is empty or ends with a slash.
    """

    top: str = ""
    splits: Mapping[str, str] | None = None

    def key_path(self, path: str) -> str:
        """Return the path of a member below `top`."""
        return path.removeprefix(self.top)

    def class_of(self, path: str) -> tuple[str, str | None] | None:
        """Return class name and split of a path; None if it is in no class folder."""
        rest = self.key_path(path)
        split = None
        if self.splits is not None:
            folder, _, rest = rest.partition("/")
            split = self.splits.get(folder)
        name, slash, _ = rest.partition("/")
        if not name or not slash or (self.splits is not None and split is None):
            return None
        return path_to_key(name), split

    def classes(self, folders: Iterable[str]) -> Iterator[FoundClass]:
        """Yield each class of the folders once per split."""
        found = {self.class_of(f"{folder}/") for folder in folders if f"{folder}/".startswith(self.top)}
        yield from (FoundClass(*one) for one in sorted(found - {None}, key=str) if one)


def find_structure(folders: Mapping[str, int], name: str) -> Structure:
    """Return the structure of an archive by its folders and the number of images directly in each.

    Raises DataprepError if it is ambiguous.
    """
    inside = _inside(folders)
    top = ""
    names = inside.get(top, [])
    while len(names) == 1 and not folders.get(top.rstrip("/"), 0) and "train" not in split_names(names).values():
        only = top + names[0]
        below = inside.get(only, [])
        if folders.get(only, 0) or not below:
            top = ""  # a single class
            break
        if len(below) > 1 and not _may_be_classes(folders, only, below):
            raise DataprepError(_ambiguous(name, only, below))
        top, names = f"{only}/", below
    names = inside.get(top.rstrip("/"), [])
    splits = _splits(names, name)
    if splits is None:
        _check_depth(inside, top, names, name)
    return Structure(top, splits)


def _inside(folders: Mapping[str, int]) -> dict[str, list[str]]:
    """Return the names of the folders in each folder."""
    inside: dict[str, list[str]] = {}
    for folder in sorted(folders):
        parent, _, name = folder.rpartition("/")
        if folder:
            inside.setdefault(parent, []).append(name)
    return inside


def _may_be_classes(folders: Mapping[str, int], only: str, below: list[str]) -> bool:
    """Return True if the folders in the only folder are certainly splits, or all have images directly."""
    splits = split_names(below)
    if "train" in splits.values():
        return len(splits) == len(below)
    return not splits and all(folders[f"{only}/{name}"] for name in below)


def _check_depth(inside: Mapping[str, list[str]], top: str, names: list[str], archive: str) -> None:
    """Raise DataprepError if a class folder contains split folders."""
    for name in names:
        below = inside.get(top + name, [])
        splits = set(split_names(below).values())
        if "train" in splits and len(splits) > 1:
            rest = next((other for other in names if other != name), name)
            raise DataprepError(
                f"{archive} is ambiguous: its folder '{path_to_key(top + name)}' contains {_some(below)}, which may be "
                f"splits, and other folders are beside it; ignore them, as in --ignore '/{path_to_key(top + rest)}/'"
            )


def _splits(names: list[str], archive: str) -> dict[str, str] | None:
    """Return the splits if the folders are splits. Raises DataprepError if that is ambiguous."""
    splits = split_names(names)
    rest = [name for name in names if name not in splits]
    if "train" not in splits.values():
        if splits and not rest:
            raise DataprepError(
                f"{archive} is ambiguous: its folders {_some(names)} may be splits, but none of them is train; if they "
                "are classes, rename them"
            )
        return None
    if rest:
        raise DataprepError(
            f"{archive} is ambiguous: its folders {_some(list(splits))} may be splits, but {_some(rest)} may not; "
            f"ignore what is no data, as in --ignore '/{path_to_key(rest[0])}/'"
        )
    if len(set(splits.values())) < len(splits):
        raise DataprepError(
            f"{archive} is ambiguous: of its folders {_some(list(splits))}, several are the same split; ignore one "
            "with --ignore"
        )
    return splits


def _ambiguous(archive: str, only: str, below: list[str]) -> str:
    return (
        f"{archive} is ambiguous: its only folder '{path_to_key(only)}' contains {_some(below)}, which may be classes "
        "or parts of one class; pack the archive again with the class folders, or train and val, at its top"
    )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(f"'{path_to_key(name)}'" for name in names[:_NAMED]) + more
