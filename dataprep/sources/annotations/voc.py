"""Layout `voc`: Annotations/*.xml, JPEGImages, ImageSets/Main/*.txt; masks in SegmentationClass."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dataprep.errors import WrongUsage
from dataprep.items import Annotation, FoundClass, Ignored, Item, Notice, Reject, ScanEntry, portable_path
from dataprep.options import SourceOptions
from dataprep.sources.annotations.files import names_in, quietly, read_lines, read_small
from dataprep.sources.annotations.ignored_classes import IgnoredClasses
from dataprep.sources.annotations.images import UNLISTED, Location, Tally, by_stem, made, missing, same_stem, walk_below
from dataprep.sources.annotations.mask_files import MaskFiles, mask_classes
from dataprep.sources.annotations.splits import splits_of
from dataprep.sources.annotations.voc_file import VocFile, corners, read_voc
from dataprep.sources.source import Source
from dataprep.sources.walk import Tree
from schemas.images.policy import ImageRejected
from schemas.names import path_to_key

_IMAGES, _XML, _MASKS = "JPEGImages", "Annotations", "SegmentationClass"
# The classes of Pascal VOC: the values 1 to 20 of its masks.
_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip


_LISTS = ("train", "val", "trainval", "test")


def recognises(root: Path) -> bool:
    """Return True if a folder has the folders of VOC."""
    return os.path.isdir(root / _IMAGES) and any(os.path.isdir(root / name) for name in (_XML, _MASKS))


def scan(source: Path, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield every image of the lists in ImageSets, or every image of JPEGImages if there are none."""
    if os.path.isfile(source):
        raise WrongUsage(f"SOURCE {source} is a file; for layout voc give the folder that has {_IMAGES} and {_XML}")
    tree = Tree(source, options)
    lists, notices = _lists(source, options)
    yield from notices
    images: list[Item] = []
    for entry in walk_below(tree, _IMAGES):
        if isinstance(entry, Item):
            images.append(entry)
        else:
            yield entry
    ignored = IgnoredClasses(tree)
    voc = _Voc(source, options, Location(source, source), ignored)
    if options.needs == "mask":
        yield from voc.find_masks(tree)
    yield from _matched(images, lists, voc)
    yield from voc.found_classes()
    yield from ignored.notices()
    yield from tree.notices()


def _lists(root: Path, options: SourceOptions) -> tuple[dict[str, set[str | None]] | None, list[Notice]]:
    """Return the splits of each listed name, and notices. None if SOURCE has no list."""
    folder = root / "ImageSets" / ("Segmentation" if options.needs == "mask" else "Main")
    paths = {name: folder / f"{name}.txt" for name in _LISTS if f"{name}.txt" in names_in(folder)}
    if {"train", "val"} <= paths.keys():
        paths.pop("trainval", None)
    if not paths:
        return None, [Notice(f"{folder.relative_to(root)} has no list of images, so all of {_IMAGES} are used")]
    if "train" not in paths and "trainval" in paths and len(paths) > 1:
        splits: dict[str, str | None] = {name: "train" if name == "trainval" else name for name in paths}
        notices: list[Notice] = []
    else:
        paths.pop("trainval", None) if len(paths) > 1 else None
        splits, notices = splits_of(paths, "lists of ImageSets")
    listed: dict[str, set[str | None]] = {}
    for name, split in splits.items():
        for line in read_lines(paths[name], options.encoding):
            listed.setdefault(line.split()[0], set()).add(split)
    return listed, notices


def _matched(images: list[Item], lists: dict[str, set[str | None]] | None, voc: "_Voc") -> Iterator[ScanEntry]:
    """Yield each image of JPEGImages, and each listed one without a file."""
    unlisted = Tally()
    stems = by_stem(images, _IMAGES)
    for stem, items in stems.items():
        splits = {None} if lists is None else lists.get(stem)
        if splits is None:
            for item in items:
                unlisted.add(item.key)
                yield Ignored(item.key, UNLISTED)
        elif len(items) > 1:
            yield from same_stem(items, "images")
        elif len(splits) > 1:
            names = " and ".join(sorted(str(split) for split in splits))
            yield Reject(items[0].key, "duplicate_annotation", f"it is in the lists {names}", items[0].size)
        else:
            yield made(items[0]._replace(split=next(iter(splits))), stem, voc.item)
    for stem in lists or ():
        if stem not in stems:
            yield missing(path_to_key(f"{_IMAGES}/{stem}"))
    yield from unlisted.notice("image", "in no list of ImageSets, and ignored")


@dataclass
class _Voc:
    """Makes items, and collects their classes."""

    root: Path
    options: SourceOptions
    location: Location
    ignored: IgnoredClasses
    masks: MaskFiles = field(default_factory=lambda: MaskFiles({}))
    classes: dict[tuple[str, str | None], None] = field(default_factory=dict)

    def find_masks(self, tree: Tree) -> Iterator[ScanEntry]:
        """List the mask files."""
        self.masks, others = MaskFiles.below(tree, _MASKS)
        yield from others

    def item(self, item: Item, stem: str) -> Item:
        """Return the item of an image with its annotation. Raises ImageRejected if it is invalid or missing."""
        needs = self.options.needs
        if needs is None:
            return item
        if needs == "mask":
            annotation = self.masks.annotation(stem, self.location)
            voc = self._read(stem)
            names = [one.name for one in voc.objects] if voc else []
        else:
            voc = self._read(stem)
            if voc is None:
                raise ImageRejected("missing_annotation", f"{self._path(stem)} does not exist")
            voc = voc._replace(objects=self.ignored.without(voc.objects, lambda one: one.name))
            names = [one.name for one in voc.objects]
            annotation = _annotation(voc, needs, self._path(stem))
        for name in names:
            self.classes[name, item.split] = None
        return item._replace(annotation=annotation)

    def _path(self, stem: str) -> str:
        folder = self.options.annotations
        return os.path.join(portable_path(folder.absolute()) if folder else _XML, f"{stem}.xml")

    def _read(self, stem: str) -> VocFile | None:
        path = self._path(stem)
        data = read_small(portable_path(self.root), path)
        return None if data is None else read_voc(data, path)

    def found_classes(self) -> Iterator[FoundClass | Notice]:
        """Yield the classes of the items that were made."""
        names = {name for name, _ in self.classes}
        if self.options.needs != "mask":
            yield from (FoundClass(*one) for one in self.classes)
        elif self.options.classes is None and names and names.issubset(_CLASSES):
            yield from (FoundClass(name, None) for name in _CLASSES)
        else:
            yield from mask_classes(self.masks, self.root, self.options)
        yield from self.masks.unused()


def _annotation(voc: VocFile, needs: str, path: str) -> Annotation:
    names = [one.name for one in voc.objects]
    if needs == "classes":
        return {"classes": sorted(set(names))}
    annotation: dict[str, object] = {
        "classes": names,
        "boxes": [corners(one, path) for one in voc.objects],
        "difficult": [one.difficult for one in voc.objects],
    }
    return annotation | ({"size": voc.size} if voc.size else {})


VOC = Source(
    scan,
    "SOURCE/Annotations/*.xml with images in SOURCE/JPEGImages and lists in SOURCE/ImageSets",
    quietly(recognises),
    gives=("classes", "boxes", "mask"),
    numbers_sort=True,
)
