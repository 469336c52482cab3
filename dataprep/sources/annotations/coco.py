"""Layout `coco`: JSON files in annotations/, and images in folders such as train2017 or images/train2017."""

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from dataprep.errors import DataRejected, WrongUsage
from dataprep.items import FoundClass, Item, Reject, ScanEntry, portable_path
from dataprep.options import SourceOptions
from dataprep.sources.annotations.coco_file import CocoFile, Json, read_coco
from dataprep.sources.annotations.coco_objects import annotation_of
from dataprep.sources.annotations.files import has_head, is_file, names_in, quietly
from dataprep.sources.annotations.ignored_classes import IgnoredClasses
from dataprep.sources.annotations.images import Location, join, match_listed, outside
from dataprep.sources.annotations.splits import splits_of
from dataprep.sources.source import Source
from dataprep.sources.walk import Tree
from schemas.counting import many
from schemas.images.policy import ImageRejected
from schemas.names import path_to_key

_BESIDE = "_annotations.coco.json"  # in the folder of the images
_HEAD = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*"(info|images|annotations|licenses|categories|type)"\s*:')
# Beginnings of file names, and those that fit what the records need, the best first.
_BEGINNINGS = ("instances", "captions", "person_keypoints", "image_info", "stuff", "panoptic")
_OF_OBJECTS = ("instances", "")
_FITTING = {"captions": ("captions", ""), None: ("instances", "", "captions", "image_info", "person_keypoints")}
_TRIED = 50


class _File:
    """An annotation file: its path, its name for messages, and what its images are called, such as train2017."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.name = portable_path(os.path.relpath(path, root) if path.is_relative_to(root) else path)
        self.beside = path.name == _BESIDE
        stem = portable_path(path.parent.name if self.beside else path.stem)
        self.beginning = next((word for word in _BEGINNINGS if stem.startswith(f"{word}_")), "")
        self.images = stem.removeprefix(f"{self.beginning}_")

    def folders(self, root: Path) -> list[str]:
        """Return the folders, below `root`, in which its images may be."""
        if self.beside and self.path.is_relative_to(root):
            return [portable_path(self.path.parent.relative_to(root))]
        return [self.images, f"images/{self.images}", f"{self.images}/images", "images", "."]


def recognises(root: Path) -> bool:
    """Return True for a COCO file, or a folder that has one in its usual place."""
    if os.path.isfile(root):
        return root.suffix == ".json" and has_head(root, _HEAD)
    return any(has_head(path, _HEAD) for path in _usual_files(root))


def _usual_files(root: Path) -> list[Path]:
    folder = root / "annotations"
    usual = [folder / name for name in names_in(folder) if name.endswith(".json")]
    beside = [root / name / _BESIDE for name in names_in(root)]
    return usual + [path for path in beside if os.path.isfile(path)]


def scan(source: Path, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield every image of the annotation files, and every other file of the folder as ignored."""
    location = _location(source, options)
    tree = Tree(location.root, options)
    files = _files(source, location.root, options, tree)
    splits, notices = splits_of(files, "annotation files")
    yield from notices
    listed: dict[str, _Listed] = {}
    strange: dict[str, Reject] = {}
    ignored = IgnoredClasses(tree)
    for name in sorted(splits, key=lambda name: (splits[name] != "train", name)):
        coco = read_coco(files[name].path, files[name].name, options.needs)
        yield from coco.notices
        _leave_out(coco, ignored)
        for order, class_name in enumerate(dict.fromkeys(coco.categories.values())):
            yield FoundClass(class_name, splits[name], order)
        folder = _folder(files[name], coco, location.root)
        strange.update(_list_images(coco, splits[name], folder, listed))
    yield from ignored.notices()
    yield from strange.values()
    yield from match_listed(tree, [""], listed, partial(_item, location, options.needs))
    yield from tree.notices()


def _leave_out(coco: CocoFile, ignored: IgnoredClasses) -> None:
    """Remove the categories that --ignore matches, with their objects."""
    names = coco.categories
    if not any(map(ignored.matches, names.values())):
        return

    def name_of(annotation: Json) -> str:
        number = annotation.get("category_id")
        return names.get(number, "") if isinstance(number, int | str) else ""

    for image, annotations in coco.of_image.items():
        coco.of_image[image] = ignored.without(annotations, name_of)
    coco.categories = {number: name for number, name in names.items() if not ignored.matches(name)}


def _location(source: Path, options: SourceOptions) -> Location:
    """Return where the images are: --root, SOURCE, or for a file its folder, or the one above `annotations`."""
    base = source.parent if os.path.isfile(source) else source
    usual = base.parent if os.path.isfile(source) and base.name == "annotations" else base
    return Location(base, options.root or usual)


def _files(source: Path, root: Path, options: SourceOptions, tree: Tree) -> dict[str, _File]:
    """Return the annotation files that fit what the records need, one for each name of images.

    Raises WrongUsage if there is none.
    """
    given = options.annotations or (source if os.path.isfile(source) else None)
    if given and os.path.isfile(given):
        file = _File(given, root)
        return {file.images: file}
    paths = [given / name for name in names_in(given) if name.endswith(".json")] if given else _usual_files(source)
    fitting = _FITTING.get(options.needs, _OF_OBJECTS)
    files: dict[str, _File] = {}
    for file in (_File(path, root) for path in paths):
        if file.beginning not in fitting or tree.ignore_rule(file.path.name, file.name, False):
            continue
        other = files.setdefault(file.images, file)
        if fitting.index(file.beginning) < fitting.index(other.beginning):
            files[file.images] = file
    if not files:
        raise WrongUsage(
            f"{given or source} has no annotation file that fits, such as annotations/{fitting[0]}_train.json; name "
            "one with --annotations FILE"
        )
    return files


def _folder(file: _File, coco: CocoFile, root: Path) -> str:
    """Return the folder below `root` that has the most of the first images. Raises DataRejected if none has any."""
    names = [image["file_name"] for image in coco.images[:: len(coco.images) // _TRIED + 1]]
    folders = file.folders(root)
    found = [sum(is_file(root, os.path.join(folder, name)) for name in names) for folder in folders]
    if names and not max(found):
        tried = ", ".join(f"'{os.path.normpath(os.path.join(folder, names[0]))}'" for folder in folders)
        raise DataRejected(
            f"none of {many(len(names), 'image')} of {coco.name} exists below {root}; looked for {tried}. Give the "
            "folder of the images with --root"
        )
    return folders[found.index(max(found))]


class _Listed(NamedTuple):
    """An image of an annotation file, with its split, and why it must be rejected."""

    coco: CocoFile
    image: Json
    split: str | None
    problem: str = ""


def _list_images(
    coco: CocoFile, split: str | None, folder: str, listed: dict[str, _Listed]
) -> Iterator[tuple[str, Reject]]:
    """Add the images of a file to `listed`, by key. Yield the Rejects of those outside of the folder, by key."""
    for image in coco.images:
        path = join(folder, image["file_name"])
        if path is None:
            reject = outside(image["file_name"])
            yield reject.key, reject
            continue
        problem = f"{coco.name} has several images of id {image['id']}" if image["id"] in coco.repeated else ""
        key = path_to_key(path)
        if key in listed:
            also = listed[key].coco.name
            problem = f"{coco.name} and {also} list it" if also != coco.name else f"{also} lists it several times"
        listed[key] = _Listed(coco, image, split, problem)


def _item(location: Location, needs: str | None, item: Item, found: _Listed) -> Item:
    """Return the item of a listed image. Raises ImageRejected if its annotations are invalid."""
    if found.problem:
        raise ImageRejected("duplicate_annotation", found.problem)
    annotation = annotation_of(found.coco, found.image, needs) if needs else None
    return location.placed(item)._replace(split=found.split, annotation=annotation)


COCO = Source(
    scan,
    "SOURCE/annotations/*.json with images in SOURCE/train2017, SOURCE/images, ...; or a COCO JSON file",
    quietly(recognises),
    gives=("classes", "boxes", "mask", "captions"),
)
