"""Layout webdataset: members with the same name and different extensions are one sample."""

import json
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from dataprep.items import Container, FoundClass, Item, Reject, ScanEntry
from dataprep.options import SourceOptions
from dataprep.sources.archives.index import Entry
from dataprep.sources.split_folders import split_names
from dataprep.sources.walk import has_image_name
from schemas.names import path_to_key

IMAGE_TEXTS = frozenset({"cls", "json", "txt"})
_CLASS_NAMES = ("class", "class_name", "label", "category", "cls")
_CLASS_LISTS = ("classes", "labels", "tags")
_CAPTIONS = ("captions", "caption", "text")


class SampleError(Exception):
    """A sample cannot become a row: a reason, and a detail for the user."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def split_extension(path: str) -> tuple[str, str]:
    """Return sample key and extension of a member, divided at the first dot of the name, as webdataset does."""
    folder, slash, name = path.rpartition("/")
    stem, _, extension = name.partition(".")
    return f"{folder}{slash}{stem}", extension.lower()


class Labels(NamedTuple):
    """What the texts of a sample say: the class of the image, or all classes, and the annotation."""

    class_name: str
    classes: list[str]
    annotation: dict[str, object]


def samples(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    """Yield the members of each sample. Members are sorted by path, so those of a sample follow one another.

    A sample is in one archive: members with the same name in two archives are two samples.
    """
    for _, group in groupby(entries, key=lambda entry: split_extension(entry.path)[0]):
        members = sorted(group, key=lambda entry: entry.archive)
        for _, sample in groupby(members, key=lambda entry: entry.archive):
            yield list(sample)


def image_of(sample: list[Entry], image_field: str | None) -> Entry:
    """Return the image of a sample. Raises SampleError if there is none or several."""
    if image_field is not None:
        wanted = image_field.lower().lstrip(".")
        images = [entry for entry in sample if split_extension(entry.path)[1] == wanted]
    else:
        images = [entry for entry in sample if has_image_name(entry.path)]
    if not images:
        names = ", ".join(f".{split_extension(entry.path)[1]}" for entry in sample)
        raise SampleError("no_image", f"the sample has no image, only {names}")
    if len({entry.path for entry in images}) > 1:
        names = " and ".join(f".{split_extension(entry.path)[1]}" for entry in images[:2])
        raise SampleError("ambiguous_sample", f"the sample has the images {names}; choose one with --image-field")
    return images[0]


def labels_of(sample: list[Entry], image: Entry, options: SourceOptions) -> Labels:
    """Return the labels in the texts of a sample. Raises SampleError if the records need others.

    A name may have further dots, as in a.b.jpg with a.b.cls.
    """
    texts = {split_extension(entry.path)[1]: entry for entry in sample if entry.content is not None or entry.problem}
    dotted = split_extension(image.path)[1].rpartition(".")[0] + "."
    texts |= {name.removeprefix(dotted): entry for name, entry in texts.items() if name.startswith(dotted)}
    values = _json_values(texts.get("json"))
    annotation: dict[str, object] = {}
    class_name, classes = "", []
    if options.needs == "class":
        class_name = _class_name(texts.get("cls"), values)
        classes = [class_name]
    elif options.needs == "classes":
        annotation["classes"] = classes = _list_of(values, _CLASS_LISTS, "a list of classes")
    elif options.needs == "captions":
        text = _text(texts.get("txt"))
        annotation["captions"] = [text] if text else _list_of(values, _CAPTIONS, "a caption")
    if options.fields:
        annotation["fields"] = {field.name: _field(values, field.name) for field in options.fields}
    return Labels(class_name, classes, annotation)


def _class_name(cls: Entry | None, values: dict[str, object]) -> str:
    text = _text(cls)
    if text:
        return path_to_key(text)
    for name in _CLASS_NAMES:
        value = values.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return path_to_key(str(value).strip())
    raise SampleError("no_label", "the sample has no class: neither .cls nor a class in .json")


def _list_of(values: dict[str, object], names: tuple[str, ...], what: str) -> list[str]:
    for name in names:
        value = values.get(name)
        listed = value if isinstance(value, list) else [value]
        if value not in (None, []) and all(isinstance(one, str | int) and not isinstance(one, bool) for one in listed):
            return [str(one) for one in listed]
    raise SampleError("no_label", f"the sample has no text with {what}")


def _field(values: dict[str, object], name: str) -> object:
    if name not in values:
        raise SampleError("no_label", f"the .json of the sample has no value '{name}'")
    return values[name]


def _json_values(entry: Entry | None) -> dict[str, object]:
    text = _text(entry)
    if not text:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise SampleError("invalid_label", "the .json of the sample is not valid JSON") from None
    if not isinstance(value, dict):
        raise SampleError("invalid_label", "the .json of the sample is not an object")
    return value


def _text(entry: Entry | None) -> str:
    """Return the text of a member; raises SampleError if it is damaged or not UTF-8."""
    if entry is None:
        return ""
    extension = split_extension(entry.path)[1]
    if entry.problem:
        raise SampleError(entry.problem[0], f"its .{extension}: {entry.problem[1]}")
    try:
        return (entry.content or b"").decode("utf-8-sig").strip().replace("\0", "")
    except UnicodeDecodeError:
        raise SampleError("invalid_label", f"the .{extension} of the sample is not UTF-8") from None


def sample_rows(
    entries: Iterator[Entry], containers: list[Container], prefixes: list[str], options: SourceOptions
) -> Iterator[ScanEntry]:
    """Yield an Item or Reject for each sample, and each class once. `prefixes` are those of the archives."""
    splits = split_names(sorted(set(prefixes)))
    if not ("train" in splits.values() and len(set(splits.values())) > 1):
        splits = {}
    found: set[FoundClass] = set()
    used: tuple[str, set[str]] = "", set()  # a sample key, and the images with it in all archives
    for sample in samples(entries):
        stem = split_extension(sample[0].path)[0]
        if used[0] != stem:
            used = stem, set()
        container, split = containers[sample[0].archive], splits.get(prefixes[sample[0].archive])
        image = None
        try:
            image = image_of(sample, options.image_field)
            if image.path in used[1]:
                raise SampleError("duplicate_key", "another archive has a sample of the same name; it is used")
            used[1].add(image.path)
            if image.problem:
                raise SampleError(*image.problem)
            labels = labels_of(sample, image, options)
        except SampleError as error:
            key, size = (image.path, image.size) if image else (stem, 0)
            yield Reject(path_to_key(key), error.reason, error.detail, size)
            continue
        new = {FoundClass(name, split) for name in labels.classes} - found
        found |= new
        yield from new
        yield _item(image, container, split, labels)


def _item(image: Entry, container: Container, split: str | None, labels: Labels) -> Item:
    key, place = path_to_key(image.path), image.place(container)
    annotation = labels.annotation or None
    return Item(key, labels.class_name, split, image.size, container.mtime_ns, place, annotation)
