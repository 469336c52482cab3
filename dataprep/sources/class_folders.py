"""SOURCE/<class>/**/<image>: the folder names are the classes. The plan assigns the splits."""

from collections.abc import Iterator
from pathlib import Path

from dataprep.items import ClosedFolder, Folder, Ignored, Notice, ScanEntry
from dataprep.options import WalkOptions
from dataprep.sources.walk import LINK, Tree, ancestors, has_image_name, walk
from schemas.counting import many
from schemas.names import path_to_key


def scan(root: Path, options: WalkOptions) -> Iterator[ScanEntry]:
    """Yield every file below `root`, with its class."""
    tree = Tree(root, options)
    yield from scan_below(tree, "", None)
    yield from tree.notices()


def scan_below(tree: Tree, path: str, split: str | None) -> Iterator[ScanEntry]:
    """Yield every file below SOURCE/path, whose folders are the classes of `split`."""
    outside = []
    for entry in tree.sorted_entries(path):
        if isinstance(entry, ClosedFolder):
            yield entry
            continue
        rule = tree.ignore_rule(entry.name, entry.path, entry.is_folder)
        if rule is None and entry.kind == LINK and not tree.follow_links:
            rule = LINK
        if rule is None and not isinstance(entry.kind, str):
            yield entry.kind
            continue
        if rule is None and not entry.is_folder:
            rule = "not in a class folder"
            outside += [entry.path] if has_image_name(entry.name) else []
        if rule:
            yield Ignored(path_to_key(entry.path), rule)
            continue
        above = ancestors(tree, entry.path)
        if not isinstance(above, frozenset):
            yield above
            continue
        class_name = path_to_key(entry.name)
        yield Folder(class_name, split)
        yield from walk(tree, entry.path, class_name, split, above)
    if outside:
        where = f"the split folder '{path}'" if path else "SOURCE"
        yield Notice(
            f"ignored {many(len(outside), 'image')} directly in {where}, outside any class folder; the "
            f"first is '{path_to_key(outside[0])}'"
        )
