"""Layout `yolo`: data.yaml, images in images/, and a label file for each image in labels/."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dataprep.errors import DataRejected, WrongUsage
from dataprep.items import (
    Annotation,
    FoundClass,
    Ignored,
    Item,
    Notice,
    Reject,
    ScanEntry,
    encode_name,
    key_to_path,
    portable_path,
)
from dataprep.options import SourceOptions
from dataprep.sources.annotations.data_yaml import read_data_yaml
from dataprep.sources.annotations.files import names_in, quietly, read_small, read_start
from dataprep.sources.annotations.ignored_classes import IgnoredClasses
from dataprep.sources.annotations.image_size import upright_size
from dataprep.sources.annotations.images import UNLISTED, Location, Tally, made, missing, walk_below
from dataprep.sources.annotations.splits import splits_of
from dataprep.sources.annotations.yolo_labels import YoloObject, read_labels
from dataprep.sources.annotations.yolo_paths import SplitPaths, find_paths
from dataprep.sources.source import Source
from dataprep.sources.walk import Tree
from schemas.counting import many
from schemas.images.policy import ImageRejected

_NAMES = re.compile(rb"^[\"']?names[\"']?\s*:", re.MULTILINE)
_SPLITS = re.compile(rb"^[\"']?(train|val)[\"']?\s*:", re.MULTILINE)
_IMAGES, _LABELS = "/images/", "/labels/"
_NOT_LABELS = ("classes.txt", "obj.names")  # beside labels, by tools


def recognises(root: Path) -> bool:
    """Return True for a data.yaml, or a folder that has one."""
    return bool(_yaml_files(root))


def _yaml_files(root: Path) -> list[Path]:
    paths = [root] if os.path.isfile(root) else [root / name for name in names_in(root)]
    named = [path for path in paths if path.suffix in (".yaml", ".yml")]
    starts = {path: read_start(path) for path in named}
    return [path for path in named if _NAMES.search(starts[path]) and _SPLITS.search(starts[path])]


def _yaml_file(source: Path, options: SourceOptions) -> Path:
    """Return the file that describes the dataset. Raises WrongUsage unless there is one."""
    if options.annotations or os.path.isfile(source):
        return options.annotations or source
    files = _yaml_files(source)
    preferred = [path for path in files if path.stem == "data"] or files
    if len(preferred) != 1:
        names = ", ".join(path.name for path in files) or "no file with names and train, such as data.yaml"
        raise WrongUsage(f"SOURCE {source} has {names}; name the file of the dataset with --annotations FILE")
    return preferred[0]


def scan(source: Path, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield every image of the folders and lists in data.yaml, with the objects of its label file."""
    yaml = _yaml_file(source, options)
    data = read_data_yaml(yaml)
    yield from data.notices
    paths = find_paths(yaml, source, data, options)
    splits, notices = splits_of(data.splits, f"splits of {yaml.name}")
    yield from notices
    tree = Tree(paths.root, options)
    ignored = IgnoredClasses(tree)
    names = [name for name in dict.fromkeys(data.names.values()) if not ignored.matches(name)]
    for split in sorted(splits.values(), key=lambda split: split != "train"):
        yield from (FoundClass(name, split, order) for order, name in enumerate(names))
    location = Location(source if os.path.isdir(source) else source.parent, paths.root)
    labels = _Labels(portable_path(paths.root), data.names, options.needs, data.has_keypoints, ignored)
    yield from paths.strange.values()
    yield from _images(tree, paths, splits, location, labels)
    yield from labels.notices()
    yield from ignored.notices()
    yield from tree.notices()


def _images(
    tree: Tree, paths: SplitPaths, splits: dict[str, str | None], location: Location, labels: "_Labels"
) -> Iterator[ScanEntry]:
    """Yield the files below the folders of data.yaml, and the listed images without a file."""
    unlisted = Tally()
    missed = dict.fromkeys(paths.listed)
    for folder in paths.roots():
        for entry in walk_below(tree, folder):
            if isinstance(entry, Reject | Ignored | Item):
                missed.pop(entry.key, None)
            if not isinstance(entry, Item):
                yield entry
                continue
            path = key_to_path(entry.key)
            names = sorted(paths.splits(entry.key, path))
            if not names:
                unlisted.add(entry.key)
                yield Ignored(entry.key, UNLISTED)
            elif len(names) > 1:
                yield Reject(entry.key, "duplicate_annotation", f"it is in {' and '.join(names)}", entry.size)
            else:
                item = location.placed(entry)._replace(split=splits[names[0]])
                yield made(item, path, labels.item)
    yield from map(missing, missed)
    yield from unlisted.notice("image", "in no split of data.yaml, and ignored")


@dataclass
class _Labels:
    """Reads label files below `root`, and counts images without one."""

    root: str
    names: dict[int, str]
    needs: str | None
    has_keypoints: bool
    ignored: IgnoredClasses
    used: set[str] = field(default_factory=set)
    without: Tally = field(default_factory=Tally)

    def item(self, item: Item, path: str) -> Item:
        """Return the item of an image with its annotation. Raises ImageRejected if its labels are invalid."""
        if self.needs is None:
            return item
        label = _label_path(self.root, path)
        data = read_small(self.root, label)
        if data is None:
            self.without.add(item.key)
        else:
            self.used.add(label)
        objects = read_labels(data or b"", label, self.has_keypoints)
        for one in objects:
            if one.number not in self.names:
                raise ImageRejected("unknown_class", f"{one.where}: the class {one.number} is not in names")
        kept = self.ignored.without(objects, lambda one: self.names[one.number])
        return item._replace(annotation=self._annotation(kept, path))

    def _annotation(self, objects: list[YoloObject], path: str) -> Annotation:
        names = [self.names[one.number] for one in objects]
        present = [name for name in dict.fromkeys(self.names.values()) if name in names]
        if self.needs == "classes":
            return {"classes": present}
        if not objects:
            return {"classes": [], "segments" if self.needs == "mask" else "boxes": []}
        size = upright_size(encode_name(os.path.join(self.root, path)))
        if self.needs == "mask":
            polygons = [one.polygon(size) for one in objects]
            segments = [{"class": name, "polygons": [polygon]} for name, polygon in zip(names, polygons, strict=True)]
            return {"classes": present, "segments": segments, "size": list(size)}
        return {"classes": names, "boxes": [one.corners(size) for one in objects], "size": list(size)}

    def notices(self) -> Iterator[Notice]:
        """Yield notices about images without labels, and labels without an image.

        Raises DataRejected if no image has labels.
        """
        if self.without.count and not self.used:
            label = _label_path(self.root, key_to_path(self.without.first))
            raise DataRejected(
                f"{many(self.without.count, 'image')} below {self.root}, and no label file; looked for '{label}'. Put "
                "images into a folder images, and labels into a folder labels beside it"
            )
        yield from self.without.notice("image", "without a label file, so without objects")
        unused = Tally()
        for folder in sorted({os.path.dirname(label) for label in self.used if _LABELS in f"/{label}"}):
            for name in map(portable_path, names_in(Path(os.fsdecode(encode_name(os.path.join(self.root, folder)))))):
                label = os.path.join(folder, name)
                if name.endswith(".txt") and name not in _NOT_LABELS and label not in self.used:
                    unused.add(label)
        yield from unused.notice("label file", "of no image, and ignored")


def _label_path(root: str, path: str) -> str:
    """Return the path of the label file of an image: the last folder `images` becomes `labels`."""
    before, found, after = os.path.join(root, path).rpartition(_IMAGES)
    label = os.path.splitext(before + _LABELS + after if found else os.path.join(root, path))[0] + ".txt"
    return label.removeprefix(f"{root}/")


YOLO = Source(
    scan,
    "SOURCE/data.yaml with images in SOURCE/images and labels in SOURCE/labels; or a data.yaml",
    quietly(recognises),
    gives=("classes", "boxes", "mask"),
)
