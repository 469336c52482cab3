"""Rules for names with folders in them: members of archives and objects of stores."""

from collections.abc import Iterable

from dataprep.sources.ignore import IgnorePatterns
from dataprep.sources.split_folders import split_names
from schemas.images.system_names import system_rule


def ignore_rule(patterns: IgnorePatterns, name: str) -> str | None:
    """Return the rule by which a member or a folder above it is ignored."""
    parts = name.split("/")
    for length in range(1, len(parts) + 1):
        path, is_folder = "/".join(parts[:length]), length < len(parts)
        pattern = patterns.match(parts[length - 1], path, is_folder) if patterns else None
        rule = system_rule(parts[length - 1], is_folder) if parts[length - 1] != ".." else None
        if rule or pattern is not None:
            return rule or f"--ignore {pattern}"
    return None


def splits_of(names: Iterable[str]) -> dict[str, str]:
    """Return the splits by first folder; empty if the first folders are classes."""
    folders = {name.split("/")[0] for name in names if name.count("/") >= 2}
    splits = split_names(folders)
    return splits if "train" in splits.values() and len(splits) == len(folders) else {}
