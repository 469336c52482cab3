"""Read the XML file of one image, as in Pascal VOC."""

import math
from typing import NamedTuple
from xml.etree import ElementTree

from dataprep.sources.annotations.files import is_text
from schemas.images.policy import ImageRejected


class VocObject(NamedTuple):
    """An object: class name, box as four text values (None if it has none), and whether it is difficult."""

    name: str
    box: "tuple[str | None, ...] | None"
    difficult: int


class VocFile(NamedTuple):
    """The annotations of one image. `size` is width and height; None if the file does not tell them."""

    size: list[int] | None
    objects: list[VocObject]


class _NoDoctype(ElementTree.TreeBuilder):
    """Builds a tree. A document type stops it: it may define entities that expand without limit."""

    def doctype(self, _name: str, _pubid: str | None, _system: str | None) -> None:
        """Refuse a document type."""
        raise ImageRejected("invalid_annotation", "its XML has a DOCTYPE, which is not read; remove it")


def read_voc(data: bytes, path: str) -> VocFile:
    """Return the content of the XML file at `path`. Raises ImageRejected if it is invalid."""
    try:
        root = ElementTree.fromstring(data, ElementTree.XMLParser(target=_NoDoctype()))
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise _invalid(path, f"it is not valid XML ({error})") from None
    return VocFile(_size(root, path), [_object(one, path) for one in root.iterfind("object")])


def _size(root: ElementTree.Element, path: str) -> list[int] | None:
    sides = [root.findtext("size/width"), root.findtext("size/height")]
    if sides in ([None, None], ["0", "0"]):
        return None
    try:
        size = [int(str(side)) for side in sides]
    except ValueError:
        raise _invalid(path, f"its size is {sides}, expected width and height") from None
    if min(size) < 1:
        raise _invalid(path, f"its size is {sides}, expected width and height")
    return size


def _object(element: ElementTree.Element, path: str) -> VocObject:
    name = (element.findtext("name") or "").strip()
    if not is_text(name):
        raise _invalid(path, "an object has no name")
    box = element.find("bndbox")
    sides = None if box is None else tuple(box.findtext(side) for side in ("xmin", "ymin", "xmax", "ymax"))
    difficult = (element.findtext("difficult") or "0").strip()
    if difficult not in ("0", "1"):
        raise _invalid(path, f"'{name}' has difficult {difficult!r:.20}, expected 0 or 1")
    return VocObject(name, sides, int(difficult))


def corners(one: VocObject, path: str) -> list[float]:
    """Return left, top, right and bottom of a box in pixels from 0, without the last column and row.

    VOC counts pixels from 1 and includes the last ones. Raises ImageRejected if the box is missing or invalid.
    """
    if one.box is None:
        raise _invalid(path, f"the object '{one.name}' has no bndbox")
    try:
        left, top, right, bottom = (float(str(side)) for side in one.box)
    except ValueError:
        raise _invalid(path, f"the bndbox of '{one.name}' is {one.box}, expected four numbers") from None
    if not all(math.isfinite(side) and abs(side) < 1e9 for side in (left, top, right, bottom)):
        raise _invalid(path, f"the bndbox of '{one.name}' is {one.box}, expected four numbers")
    return [left - 1, top - 1, right, bottom]


def _invalid(path: str, problem: str) -> ImageRejected:
    return ImageRejected("invalid_annotation", f"{path}: {problem}")
