"""Splits from the names of annotation files and lists."""

from collections.abc import Iterable, Iterator

from dataprep.errors import DataRejected
from dataprep.items import Notice
from dataprep.sources.split_folders import likely_split_names, split_names


def splits_of(names: Iterable[str], what: str) -> tuple[dict[str, str | None], list[Notice]]:
    """Return the split of each name, and notices. A single name has no split: the plan assigns it.

    Names without a split beside others that have one are left out, with a notice. Raises DataRejected if two names are
    of one split, or several names are of none.
    """
    names = sorted(names)
    if len(names) == 1:
        return {names[0]: None}, list(_alone(names[0], what))
    splits = split_names(names)
    if "train" not in splits.values():
        splits = likely_split_names(names) or splits
    if not splits:
        raise DataRejected(f"the {what} {_some(names)} are not named after splits; choose one with --annotations FILE")
    first: dict[str, str] = {}
    for name, split in splits.items():
        if first.setdefault(split, name) != name:
            raise DataRejected(
                f"the {what} '{first[split]}' and '{name}' are both of the split {split}; ignore one with --ignore, or "
                "choose one with --annotations FILE"
            )
    rest = [name for name in names if name not in splits]
    notices = [Notice(f"'{name}' of the {what} is not named after a split; it is ignored") for name in rest]
    return dict(splits), notices


def _alone(name: str, what: str) -> Iterator[Notice]:
    split = split_names([name]).get(name)
    if split:
        yield Notice(f"'{name}' is the only one of the {what}, so --val and --test divide its images")


def _some(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:4]) + (", ..." if len(names) > 4 else "")
