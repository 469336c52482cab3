"""Layout cloud: objects of a store such as s3://bucket/folder, in class folders or split folders."""

from collections.abc import Iterator
from pathlib import Path

from dataprep.items import FoundClass, Ignored, Item, Notice, ScanEntry
from dataprep.options import SourceOptions
from dataprep.sources.ignore import IgnorePatterns
from dataprep.sources.names import ignore_rule, splits_of
from dataprep.sources.source import Source
from dataprep.sources.walk import has_image_name
from dataprep.storage.remote import StoredObject, is_remote, list_objects
from schemas.names import path_to_key


def scan(root: Path, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield the objects below an address.

    Objects without the extension of an image are ignored, since each look into one is a request. Raises the errors of
    list_objects.
    """
    found = list(list_objects(root))
    splits = splits_of(one.name for one in found)
    patterns = IgnorePatterns(options.ignore)
    classes: set[tuple[str, str | None]] = set()
    for one in found:
        rule = ignore_rule(patterns, one.name) or _rule(one, splits, options)
        if rule:
            yield Ignored(path_to_key(one.name), rule)
            continue
        parts = one.name.split("/")
        split = splits.get(parts[0])
        class_name = path_to_key(parts[1 if splits else 0]) if options.needs == "class" else ""
        if class_name and (class_name, split) not in classes:
            classes.add((class_name, split))
            yield FoundClass(class_name, split)
        yield Item(path_to_key(one.name), class_name, split, one.size, one.mtime_ns)
    yield from map(Notice, patterns.unmatched())


def _rule(one: StoredObject, splits: dict[str, str], options: SourceOptions) -> str | None:
    if not has_image_name(one.name):
        return "no image by name"
    depth = one.name.count("/")
    if splits and one.name.split("/")[0] not in splits:
        return "not in a split folder"
    if options.needs == "class" and depth < (2 if splits else 1):
        return "not in a class folder"
    return None


OBJECT_STORE = Source(scan, "SOURCE is an address such as s3://bucket/folder with <class>/<image> below it", is_remote)
