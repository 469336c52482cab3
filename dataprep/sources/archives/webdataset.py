"""Layout webdataset: tars in which the files of a sample have one name and different endings."""

import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dataprep.items import FoundClass, Ignored, Item, Notice, Reject, ScanEntry
from dataprep.options import SourceOptions
from dataprep.sources.archives.members import Member, Members, base_of, member_table
from dataprep.sources.archives.tar import is_tar_source, tar_files, tar_members
from dataprep.sources.source import Source
from dataprep.sources.split_folders import NAMES
from dataprep.sources.tables.values import (
    CAPTIONS,
    LABELS,
    Invalid,
    captions_of,
    class_of,
    classes_of,
    field_of,
    usual_column,
)
from dataprep.sources.walk import has_image_name
from schemas.names import path_to_key

_TEXTS = ("cls", "json", "txt", "text", "caption")


def looks_like_samples(names: list[str]) -> bool:
    """Return True if an image has a file with the ending of a label beside it."""
    images = {base_of(name) for name in names if has_image_name(name)}
    return any(base_of(name) in images and _ending(name) in _TEXTS for name in names)


def _ending(name: str) -> str:
    return name.rpartition("/")[2].partition(".")[2].lower()


def scan(path: Path, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield the image of every sample of a tar, or of all tars in a folder.

    The split is that of the tar's name, as in train-000.tar, if it names one.
    """
    folder = path if path.is_dir() else path.parent
    files = tar_files(path)
    notices: list[Notice] = []
    classes: set[tuple[str, str | None]] = set()
    incomplete: Counter[str] = Counter()
    seen: set[int] = set()
    for file in files:  # the files of a sample are in one tar
        split = NAMES.get(file.name.lower().replace("_", "-").partition(".")[0].partition("-")[0])
        with member_table(folder) as members:
            members.add(tar_members(file, folder, options.work, notices))
            members.resolve_links()
            for sample in members.by_base():
                for entry in _sample(members, sample, split, options):
                    if isinstance(entry, Item) and hash(entry.key) in seen:
                        entry = Reject(entry.key, "duplicate_key", f"an earlier sample has this key; {file.name}")
                    if isinstance(entry, Item):
                        seen.add(hash(entry.key))
                        yield from _new_classes(entry, classes)
                    elif isinstance(entry, Reject):
                        incomplete[entry.reason] += 1
                    yield entry
    if incomplete:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in sorted(incomplete.items()))
        notices.append(Notice(f"samples that are incomplete or cannot be read: {counts}"))
    yield from notices


def _new_classes(item: Item, known: set[tuple[str, str | None]]) -> Iterator[FoundClass]:
    listed = (item.annotation or {}).get("classes", [])
    assert isinstance(listed, list)
    for name in [item.class_name] if item.class_name else listed:
        if (name, item.split) not in known:
            known.add((name, item.split))
            yield FoundClass(name, item.split)


def _sample(
    members: Members, sample: list[Member], split: str | None, options: SourceOptions
) -> Iterator[Item | Reject | Ignored]:
    """Yield the entries of one sample: an image with its label, or what is wrong with it. Its labels are no entries."""
    images = [member for member in sample if has_image_name(member.name)]
    if not images:
        for member in sample:
            labels = _ending(member.name) in _TEXTS
            key = path_to_key(member.name)
            yield (
                Reject(key, "no_image", f"no image has the name '{base_of(member.name)}'")
                if labels
                else Ignored(key, "no image by name or content")
            )
        return
    texts: dict[str, Member] = {}
    for member in sample:
        texts.setdefault(_ending(member.name), member)
    for image in images:
        key = path_to_key(image.name)
        if image.problem or image.place is None:
            yield Reject(key, *(image.problem or ("unreadable", "it has no data")), image.size)
            continue
        try:
            class_name, annotation = _annotation(members, texts, options)
        except Invalid as error:
            yield Reject(key, error.reason, error.detail, image.size)
            continue
        time = image.place.container.mtime_ns
        yield Item(key, class_name, split, image.size, time, image.place, annotation or None)


def _annotation(members: Members, texts: Mapping[str, Member], options: SourceOptions) -> tuple[str, dict[str, Any]]:
    """Return class and annotation of a sample. Raises Invalid."""
    values = _json(members, texts)
    annotation: dict[str, Any] = {}
    class_name = ""
    if options.needs in ("class", "classes"):
        label: Any = _text(members, texts, "cls")
        if label is None:
            column = options.label_column or usual_column(values, LABELS)
            label = values.get(column) if column else None
        if label is None:
            raise Invalid("no_class", "its sample has neither a .cls file nor a class in a .json file")
        if options.needs == "class":
            class_name = class_of(label)
        else:
            annotation["classes"] = classes_of(label)
    elif options.needs == "captions":
        caption: Any = next((text for name in _TEXTS[2:] if (text := _text(members, texts, name)) is not None), None)
        column = usual_column(values, CAPTIONS)
        annotation["captions"] = captions_of(values.get(column) if caption is None and column else caption)
    if options.fields:
        annotation["fields"] = {field.name: field_of(field, values.get(field.name)) for field in options.fields}
    return class_name, annotation


def _text(members: Members, texts: Mapping[str, Member], ending: str) -> str | None:
    member = texts.get(ending)
    if member is None or member.place is None:
        return None
    try:
        return members.read(member).decode("utf-8").strip()
    except (OSError, zlib.error, UnicodeDecodeError) as error:
        raise Invalid("corrupt", f"its .{ending} file cannot be read: {error}") from None


def _json(members: Members, texts: Mapping[str, Member]) -> dict[str, Any]:
    text = _text(members, texts, "json")
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid("corrupt", f"its .json file is not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise Invalid("corrupt", f"its .json file has a {type(value).__name__}, expected an object")
    return value


WEBDATASET = Source(
    scan,
    "SOURCE is a tar or a folder of tars with samples KEY.jpg and KEY.cls, KEY.json or KEY.txt",
    lambda path: is_tar_source(path, looks_like_samples),
    gives=("class", "classes", "captions"),
    gives_fields=True,
    numbers_sort=True,
)
