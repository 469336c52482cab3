"""Find the images that data.yaml names: folders and lists, below one folder."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dataprep.errors import DataRejected
from dataprep.items import Reject, encode_name, portable_path
from dataprep.options import SourceOptions
from dataprep.sources.annotations.data_yaml import DataYaml
from dataprep.sources.annotations.files import read_lines
from dataprep.sources.annotations.images import join, outside
from schemas.names import path_to_key


@dataclass
class SplitPaths:
    """The images of each split, as paths below `root`: folders, and listed keys. `strange` are paths elsewhere."""

    root: Path
    folders: dict[str, str] = field(default_factory=dict)
    listed: dict[str, set[str]] = field(default_factory=dict)
    strange: dict[str, Reject] = field(default_factory=dict)

    def splits(self, key: str, path: str) -> set[str]:
        """Return the splits of an image."""
        above = {split for folder, split in self.folders.items() if folder == "." or path.startswith(f"{folder}/")}
        return above | self.listed.get(key, set())

    def roots(self) -> list[str]:
        """Return the folders that contain all images, none inside another. The tree calls its root an empty text."""
        folders = {*self.folders, *(os.path.dirname(key) or "." for key in self.listed)}
        if "." in folders:
            return [""]
        return sorted(folder for folder in folders if not any(folder.startswith(f"{other}/") for other in folders))


def find_paths(yaml: Path, source: Path, data: DataYaml, options: SourceOptions) -> SplitPaths:
    """Return the paths of data.yaml below --root, or below SOURCE, the folder of the file or its `path`.

    The first folder that has all of them is used. Raises DataRejected if none has.
    """
    base = source if os.path.isdir(source) else source.parent
    roots = [options.root] if options.root else [base, yaml.parent, yaml.parent / data.path]
    for root in roots:
        below = {split: [_below(root, path) for path in paths] for split, paths in data.splits.items()}
        if all(all(paths) for paths in below.values()):
            found = SplitPaths(Path(os.path.abspath(root)))
            for split, paths in below.items():
                for path in filter(None, paths):
                    _add(found, split, path, yaml, options.encoding)
            return found
    first = next(path for paths in data.splits.values() for path in paths if not _below(roots[0], path))
    looked = ", ".join(dict.fromkeys(os.path.abspath(root) for root in roots))
    raise DataRejected(f"'{first}' of {yaml} was not found below {looked}; give the folder of the dataset with --root")


def _below(root: Path, path: str) -> str | None:
    """Return an existing path below `root`. Leading `..` are dropped if needed, as exports of Roboflow expect."""
    absolute = os.path.abspath(root)
    relative = os.path.relpath(path, absolute) if os.path.isabs(path) else path
    for candidate in (relative, relative.lstrip("./") if relative.startswith("../") else relative):
        found = join(".", candidate)
        if found and os.path.exists(os.path.join(absolute, found)):
            return found
    return None


def _add(found: SplitPaths, split: str, path: str, yaml: Path, encoding: str) -> None:
    full = found.root / path
    if os.path.isdir(full):
        if found.folders.setdefault(path, split) != split:
            raise DataRejected(
                f"{yaml}: '{path}' is both of {found.folders[path]} and of {split}; give each split its own images, or "
                "remove one"
            )
        return
    if full.suffix != ".txt":
        raise DataRejected(f"{yaml}: '{path}' is neither a folder nor a list of images (.txt)")
    for listed in _list(found, full, encoding):
        found.listed.setdefault(path_to_key(listed), set()).add(split)


def _list(found: SplitPaths, file: Path, encoding: str) -> Iterator[str]:
    """Yield the paths in a list. They are relative to the root, or to the folder of the list."""
    lines = read_lines(file, encoding)
    own = portable_path(file.parent.relative_to(found.root))
    first = lines[0] if lines else ""
    in_root = os.path.exists(os.path.join(os.fsencode(found.root), encode_name(first)))
    folder = own if first.startswith("./") or not in_root else "."
    for line in lines:
        path = os.path.relpath(line, found.root) if os.path.isabs(line) else line
        inside = join("." if os.path.isabs(line) else folder, path)
        if inside is None:
            reject = outside(line)
            found.strange[reject.key] = reject
        else:
            yield inside
