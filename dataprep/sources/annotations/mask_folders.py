"""Layout `masks`: images/ and masks/ with the same names, as a whole or for each split."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dataprep.errors import WrongUsage
from dataprep.items import Item, Reject, ScanEntry, portable_path
from dataprep.options import SourceOptions
from dataprep.sources.annotations.files import names_in, quietly
from dataprep.sources.annotations.images import Location, by_stem, made, same_stem, walk_below
from dataprep.sources.annotations.mask_files import MaskFiles, mask_classes
from dataprep.sources.source import Source
from dataprep.sources.split_folders import likely_split_names, split_names
from dataprep.sources.walk import Tree

_IMAGES, _MASKS = "images", "masks"


class _Pair(NamedTuple):
    """A folder of images, that of their masks, and the split; None if the plan assigns it."""

    images: str
    masks: str
    split: str | None


def recognises(root: Path) -> bool:
    """Return True if a folder, or each of its split folders, has images and masks."""
    if _has_both(root):
        return True
    splits = split_names(_folders(root))
    return "train" in splits.values() and all(_has_both(root / name) for name in splits)


def _has_both(folder: Path) -> bool:
    return os.path.isdir(folder / _IMAGES) and os.path.isdir(folder / _MASKS)


def _folders(folder: Path) -> list[str]:
    return [name for name in names_in(folder) if os.path.isdir(folder / name)]


def scan(source: Path, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield every image with its mask."""
    tree = Tree(source, options)
    location = Location(source, source)
    masks = MaskFiles({})
    pairs = _pairs(source, options)
    images: list[tuple[_Pair, list[Item]]] = []
    for pair in pairs:
        images.append((pair, []))
        for entry in walk_below(tree, pair.images):
            if isinstance(entry, Item):
                images[-1][1].append(entry)
            else:
                yield entry
    for pair in pairs if options.needs else ():
        found, closed = MaskFiles.below(tree, pair.masks)
        yield from closed
        masks.stems.update({f"{pair.masks}/{stem}": items for stem, items in found.stems.items()})
    for pair, items in images:
        yield from _matched(pair, items, masks, location, options)
    if options.needs:
        yield from mask_classes(masks, source, options)
        yield from masks.unused()
    yield from tree.notices()


def _pairs(root: Path, options: SourceOptions) -> list[_Pair]:
    """Return the pairs of folders. Raises WrongUsage if there is none."""
    if not os.path.isdir(root):
        raise WrongUsage(f"SOURCE {root} is a file; for layout masks give the folder that has {_IMAGES} and {_MASKS}")
    if os.path.isdir(root / _IMAGES):
        masks = _masks_folder(root, options)
        splits = _splits(root / _IMAGES)
        if splits:
            return [_Pair(f"{_IMAGES}/{name}", f"{masks}/{name}", split) for name, split in splits.items()]
        return [_Pair(_IMAGES, masks, None)]
    splits = {name: split for name, split in _splits(root).items() if _has_both(root / name)}
    if not splits:
        raise WrongUsage(
            f"SOURCE {root} has no folders {_IMAGES} and {_MASKS}, and none in split folders such as train; rename its "
            "folders, or name the one of the masks with --annotations"
        )
    return [_Pair(f"{name}/{_IMAGES}", f"{name}/{_MASKS}", split) for name, split in splits.items()]


def _masks_folder(root: Path, options: SourceOptions) -> str:
    """Return the folder of the masks below SOURCE. Raises WrongUsage if it is not there."""
    folder = options.annotations or root / _MASKS
    if not os.path.isdir(folder) or not folder.absolute().is_relative_to(root.absolute()):
        raise WrongUsage(f"{folder} is not a folder of masks below SOURCE {root}; name one with --annotations")
    return portable_path(folder.absolute().relative_to(root.absolute()))


def _splits(folder: Path) -> dict[str, str]:
    """Return the splits of the folders in a folder, if one of them is train."""
    names = _folders(folder)
    splits = split_names(names)
    return splits if "train" in splits.values() else likely_split_names(names)


def _matched(
    pair: _Pair, items: list[Item], masks: MaskFiles, location: Location, options: SourceOptions
) -> Iterator[Item | Reject]:
    def with_mask(item: Item, stem: str) -> Item:
        annotation = masks.annotation(f"{pair.masks}/{stem}", location) if options.needs else None
        return item._replace(split=pair.split, annotation=annotation)

    for stem, same in by_stem(items, pair.images).items():
        if len(same) > 1:
            masks.used.add(f"{pair.masks}/{stem}")
            yield from same_stem(same, "images")
        else:
            yield made(same[0], stem, with_mask)


MASKS = Source(
    scan,
    "SOURCE/images/<image> and SOURCE/masks/<mask> of the same name, or both in SOURCE/{train,val,test}",
    quietly(recognises),
    gives=("mask",),
    numbers_sort=True,
)
