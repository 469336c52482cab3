"""Mask images beside the images: found by the same path without extension."""

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from dataprep.errors import DataRejected
from dataprep.items import Annotation, ClosedFolder, FoundClass, Item, Notice, encode_name, key_to_path
from dataprep.options import SourceOptions
from dataprep.sources.annotations.images import Location, Tally, by_stem, walk_below
from dataprep.sources.walk import Tree
from schemas.images.pixels import readable_formats
from schemas.images.policy import ImageRejected


@dataclass
class MaskFiles:
    """The mask files by stem: the path below their folder without extension. `used` are those of an image."""

    stems: dict[str, list[Item]]
    used: set[str] = field(default_factory=set)

    @classmethod
    def below(cls, tree: Tree, folder: str) -> "tuple[MaskFiles, list[ClosedFolder]]":
        """Return the masks below a folder of the tree, and the folders that cannot be listed."""
        entries = list(walk_below(tree, folder))
        items = [entry for entry in entries if isinstance(entry, Item)]
        return cls(by_stem(items, folder)), [entry for entry in entries if isinstance(entry, ClosedFolder)]

    def annotation(self, stem: str, location: Location) -> Annotation:
        """Return the annotation that names the mask of an image. Raises ImageRejected unless there is one mask."""
        masks = self.stems.get(stem, [])
        self.used.add(stem)
        if not masks:
            raise ImageRejected("missing_annotation", "it has no mask of the same name")
        if len(masks) > 1:
            names = ", ".join(sorted(mask.key for mask in masks))
            raise ImageRejected("duplicate_annotation", f"it has several masks: {names}")
        place = location.place(key_to_path(masks[0].key))
        return {"mask_file": {"place": place, "size": masks[0].size, "mtime_ns": masks[0].mtime_ns}}

    def unused(self) -> Iterator[Notice]:
        """Yield a notice about masks of no image."""
        unused = Tally()
        for stem in self.stems.keys() - self.used:
            for mask in self.stems[stem]:
                unused.add(mask.key)
        yield from unused.notice("mask", "of no image in use, and ignored")


def mask_classes(masks: MaskFiles, root: Path, options: SourceOptions) -> Iterator[FoundClass | Notice]:
    """Yield the classes: those of --classes, or the numbers 1 to the largest value of the masks.

    Value v of a mask is the class of label v - 1; 0 is the background. Raises DataRejected if no mask has a value
    besides 0 and the value of --ignore-value.
    """
    if options.classes is not None:
        yield from (FoundClass(name, None) for name in options.classes)
        return
    values: set[int] = set()
    for stem in sorted(masks.used & masks.stems.keys()):
        for mask in masks.stems[stem]:
            values |= _values(os.path.join(os.fsencode(root), encode_name(key_to_path(mask.key))))
    values -= {0, options.ignore_value}
    if not values:
        raise DataRejected(
            f"no mask has a value other than 0 (background) and {options.ignore_value} (--ignore-value); write the "
            "classes as 1, 2, ..., or name another --ignore-value"
        )
    largest = max(values)
    if len(values) < largest:
        numbers = f"{len(values)} of the values 1 to {largest}"
        yield Notice(f"the masks use {numbers}, but all {largest} become classes; see --classes")
    yield from (FoundClass(str(value), None) for value in range(1, largest + 1))


def _values(path: bytes) -> set[int]:
    """Return the values of a mask. The set is empty if it cannot be read, and the record kind rejects it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with open(path, "rb") as file, Image.open(file, formats=readable_formats()) as image:
                if image.mode in ("L", "P"):
                    return {value for value, count in enumerate(image.histogram()) if count}
                if image.mode == "1" or image.mode.startswith("I"):
                    return set(map(int, np.unique(np.asarray(image))))
    except MemoryError:
        raise
    except Exception:  # any error of Pillow
        return set()
    return set()
