"""Annotations of one image from a COCO file."""

from collections.abc import Callable
from typing import Any

from dataprep.items import Annotation
from dataprep.sources.annotations.coco_file import CocoFile, Json
from dataprep.sources.annotations.files import is_number, is_text
from schemas.images.policy import ImageRejected


def annotation_of(coco: CocoFile, image: Json, needs: str) -> Annotation:
    """Return what the records need of an image. Raises ImageRejected if an annotation is invalid."""
    size = _size(image)
    return _CONVERT[needs](coco, coco.take(image), size) | (
        {"size": size} if size and needs in ("boxes", "mask") else {}
    )


def _size(image: Json) -> list[int] | None:
    """Return width and height; None if the file does not tell them."""
    size = [image.get("width"), image.get("height")]
    if size == [None, None]:
        return None
    sides = [int(side) for side in size if isinstance(side, int | float) and is_number(side) and side == int(side) > 0]
    if len(sides) != 2:
        raise _invalid(f"its width and height are {size[0]!r:.40} and {size[1]!r:.40}")
    return sides


def _boxes(coco: CocoFile, annotations: list[Json], _size: list[int] | None) -> dict[str, object]:
    return {
        "classes": [_class(coco, one) for one in annotations],
        "boxes": [_corners(one) for one in annotations],
        "iscrowd": [_iscrowd(one) for one in annotations],
    }


def _classes(coco: CocoFile, annotations: list[Json], _size: list[int] | None) -> dict[str, object]:
    present = {_class(coco, one) for one in annotations}
    return {"classes": [name for name in dict.fromkeys(coco.categories.values()) if name in present]}


def _mask(coco: CocoFile, annotations: list[Json], size: list[int] | None) -> dict[str, object]:
    segments = [{"class": _class(coco, one), **_segment(one, size)} for one in annotations]
    return {**_classes(coco, annotations, size), "segments": segments}


def _captions(_coco: CocoFile, annotations: list[Json], _size: list[int] | None) -> dict[str, object]:
    captions = [one.get("caption") for one in annotations]
    for one, caption in zip(annotations, captions, strict=True):
        if not is_text(caption):
            raise _invalid(f"its caption {_name(one)} is {caption!r:.40}")
    return {"captions": captions}


_CONVERT: dict[str, Callable[[CocoFile, list[Json], list[int] | None], dict[str, object]]] = {
    "boxes": _boxes,
    "classes": _classes,
    "mask": _mask,
    "captions": _captions,
}


def _class(coco: CocoFile, annotation: Json) -> str:
    number = annotation.get("category_id")
    if not isinstance(number, int | str) or isinstance(number, bool) or number not in coco.categories:
        raise ImageRejected("unknown_class", f"its annotation {_name(annotation)} has the category {number!r:.40}")
    return coco.categories[number]


def _corners(annotation: Json) -> list[float]:
    """Return left, top, right and bottom of a box that is given as left, top, width and height."""
    box = annotation.get("bbox")
    if not isinstance(box, list) or len(box) != 4 or not all(map(is_number, box)):
        raise _invalid(f"its annotation {_name(annotation)} has the bbox {box!r:.80}, expected four numbers")
    left, top, width, height = map(float, box)
    return [left, top, left + width, top + height]


def _iscrowd(annotation: Json) -> int:
    value = annotation.get("iscrowd", 0)
    if value not in (0, 1):
        raise _invalid(f"its annotation {_name(annotation)} has iscrowd {value!r:.40}, expected 0 or 1")
    return int(value)


def _segment(annotation: Json, size: list[int] | None) -> dict[str, object]:
    """Return the polygons or the run lengths of an annotation."""
    shape = annotation.get("segmentation")
    if isinstance(shape, list) and shape and all(map(_is_polygon, shape)):
        return {"polygons": [list(map(float, polygon)) for polygon in shape]}
    if isinstance(shape, dict) and _is_rle(shape):
        if size and shape["size"] != size[::-1]:
            raise _invalid(f"its annotation {_name(annotation)} has a mask of height and width {shape['size']}")
        return {"rle": {"counts": shape["counts"], "size": shape["size"]}}
    raise _invalid(f"its annotation {_name(annotation)} has the segmentation {shape!r:.60}, expected polygons or RLE")


def _is_polygon(polygon: Any) -> bool:
    return isinstance(polygon, list) and len(polygon) >= 6 and len(polygon) % 2 == 0 and all(map(is_number, polygon))


def _is_rle(shape: Json) -> bool:
    counts, size = shape.get("counts"), shape.get("size")
    sizes = isinstance(size, list) and len(size) == 2 and all(type(side) is int and side > 0 for side in size)
    runs = isinstance(counts, list) and all(type(run) is int and run >= 0 for run in counts)
    return sizes and (runs or is_text(counts))


def _name(annotation: Json) -> str:
    return repr(annotation.get("id"))[:40]


def _invalid(detail: str) -> ImageRejected:
    return ImageRejected("invalid_annotation", detail)
