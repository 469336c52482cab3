"""Read a COCO file: images, categories, and the annotations of each image."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dataprep.errors import DataRejected
from dataprep.items import Notice
from dataprep.sources.annotations.files import is_text, read_whole
from dataprep.sources.annotations.images import Tally

# What each kind of record needs of an annotation, besides the ids.
_NEEDED = {
    "boxes": ("category_id", "bbox", "iscrowd"),
    "classes": ("category_id",),
    "mask": ("category_id", "segmentation"),
    "captions": ("caption",),
}
_IDS = ("id", "image_id")
_OF_IMAGES = ("id", "file_name", "width", "height")

Id = int | str
Json = dict[str, Any]


@dataclass
class CocoFile:
    """The content of one file. `name` is its path for messages.

    `images` are the entries of images. `categories` are names by id, in the order of the ids. `of_image` are the
    annotations by image id, in the order of the file. `repeated` are image ids of several entries.
    """

    name: str
    images: list[Json]
    categories: dict[Id, str] = field(default_factory=dict)
    of_image: dict[Id, list[Json]] = field(default_factory=dict)
    repeated: set[Id] = field(default_factory=set)
    notices: list[Notice] = field(default_factory=list)

    def take(self, image: Json) -> list[Json]:
        """Return the annotations of an image, and forget them."""
        return self.of_image.pop(image["id"], [])


def read_coco(path: Path, name: str, needs: str | None) -> CocoFile:
    """Read the file at `path`.

    Memory is that of the parsed JSON without what the records do not need. Raises DataRejected if it is no COCO file.
    """
    data = _parse(path, name, needs)
    images = [_image(entry, f"{name}: images[{i}]") for i, entry in enumerate(_list(data, "images", name))]
    coco = CocoFile(name, images)
    coco.repeated = _repeated([image["id"] for image in images])
    if needs is None:
        return coco
    annotations = _list(data, "annotations", name)
    if needs != "captions":
        coco.categories = _categories(_list(data, "categories", name), name)
        coco.notices += _same_names(coco)
    coco.notices += _share_out(coco, annotations)
    return coco


def _parse(path: Path, name: str, needs: str | None) -> Json:
    keep = (*_IDS, *_NEEDED[needs]) if needs else ()

    def shorten(value: Json) -> Json:
        """Keep only what the records need of an annotation."""
        return {key: value[key] for key in keep if key in value} if "image_id" in value else value

    try:
        data = json.loads(read_whole(path).decode("utf-8-sig"), object_hook=shorten)
    except (ValueError, RecursionError) as error:
        raise DataRejected(f"{name} is not complete JSON ({error}); restore it from a copy") from None
    if not isinstance(data, dict):
        raise _wrong(name, f"it is a {type(data).__name__}, not an object")
    return data


def _list(data: Json, key: str, name: str) -> list[Any]:
    value = data.get(key)
    if not isinstance(value, list):
        raise _wrong(name, f"it has no list '{key}'")
    return value


def _image(entry: Any, where: str) -> Json:
    if not isinstance(entry, dict) or not _is_id(entry.get("id")):
        raise _wrong(where, "it has no id")
    if not is_text(entry.get("file_name")):
        raise _wrong(where, "it has no file_name")
    return {key: entry.get(key) for key in _OF_IMAGES}


def _categories(entries: list[Any], name: str) -> dict[Id, str]:
    """Return category names by id, in the order of the ids."""
    categories: dict[Id, str] = {}
    for i, entry in enumerate(entries):
        where = f"{name}: categories[{i}]"
        if not isinstance(entry, dict) or not _is_id(entry.get("id")) or not is_text(entry.get("name")):
            raise _wrong(where, "it needs an id and a name")
        if categories.setdefault(entry["id"], entry["name"]) != entry["name"]:
            raise _wrong(where, f"its id {entry['id']} is also that of '{categories[entry['id']]}'")
    if len({type(number) for number in categories}) > 1:
        raise _wrong(name, "its category ids are partly numbers and partly text")
    return dict(sorted(categories.items(), key=lambda one: (one[0], "") if isinstance(one[0], int) else (0, one[0])))


def _same_names(coco: CocoFile) -> Iterator[Notice]:
    names = list(coco.categories.values())
    twice = sorted({name for name in names if names.count(name) > 1})
    for name in twice:
        yield Notice(f"{coco.name} has several categories named '{name}'; they are one class")


def _share_out(coco: CocoFile, annotations: list[Any]) -> Iterator[Notice]:
    """Put the annotations into coco.of_image. Yield notices about those of no image and about repeated ids."""
    orphans, repeated = Tally(), Tally()
    known = {image["id"] for image in coco.images}
    ids: set[Id] = set()
    for i, annotation in enumerate(annotations):
        if not isinstance(annotation, dict) or not _is_id(annotation.get("image_id")):
            raise _wrong(f"{coco.name}: annotations[{i}]", "it has no image_id")
        if annotation["image_id"] not in known:
            orphans.add(f"annotations[{i}]")
            continue
        number = annotation.get("id")
        if isinstance(number, int | str):
            if number in ids:
                repeated.add(f"annotations[{i}]")
            ids.add(number)
        coco.of_image.setdefault(annotation["image_id"], []).append(annotation)
    yield from orphans.notice("annotation", f"of no image of {coco.name}, and ignored")
    yield from repeated.notice("annotation", f"in {coco.name} with the id of an earlier one, and used")


def _repeated(ids: list[Id]) -> set[Id]:
    seen: set[Id] = set()
    return {number for number in ids if number in seen or seen.add(number)}  # type: ignore[func-returns-value]


def _is_id(value: object) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _wrong(where: str, problem: str) -> DataRejected:
    return DataRejected(f"{where}: {problem}, so it is no COCO file; correct it, or choose another with --annotations")
