"""Record kind `segmentation`: one image and a mask with the class of every pixel, as PNG.

A value v of the mask is the class with label v - 1; 0 is the background, and `ignore_value` is no class. Masks of more
than 255 values have 16 bits.
"""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from dataprep.build.records.detection import annotation_transform
from dataprep.build.records.sample import Record, RecordKind, Sample
from dataprep.images.rasters import object_mask, polygon_mask
from dataprep.images.transform import Transform
from dataprep.items import ByteRange, Container, Place
from schemas.images.policy import ImageRejected
from schemas.record import RecordSchema

_MODES = ("1", "L", "P", "I", "I;16", "I;16B", "I;16L")
_FORMATS = ("PNG", "BMP", "GIF", "TIFF")  # without loss
Values = npt.NDArray[Any]


def encode(schema: RecordSchema, sample: Sample) -> Record:
    """Return the record with the columns that `schema` gives the roles image, mask and key.

    The annotation has `mask_file` (place, size and time of an image of class values), or `segments`: a list of objects
    with a `class` and `polygons` or `rle`, which are painted in order. Raises ImageRejected if it cannot be used.
    """
    given = sample.annotation
    if "mask_file" in given:
        image = _read_mask(sample, given["mask_file"])
    elif "segments" in given:
        image = _paint(sample, given["segments"])
    else:
        raise ImageRejected("no_mask", "it has no mask")
    values = np.asarray(image)
    _check_values(values, sample)
    stored = values.astype(np.uint16 if int(values.max(initial=0)) > 255 else np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(stored).save(buffer, "PNG")
    row = {"image": sample.picture.data, "mask": buffer.getvalue(), "key": sample.item.key}
    return Record({schema.column(role): value for role, value in row.items()}, _labels(stored, sample.ignore_value))


def _labels(values: Values, ignore_value: int) -> tuple[int, ...]:
    return tuple(int(value) - 1 for value in np.unique(values) if value not in (0, ignore_value))


def _check_values(values: Values, sample: Sample) -> None:
    largest = len(sample.classes)
    outside = values[(values > largest) & (values != sample.ignore_value)]
    if outside.size:
        raise ImageRejected(
            "unknown_class",
            f"its mask has the value {int(outside.flat[0])}, above the {largest} classes and not the ignore value "
            f"{sample.ignore_value}",
        )


def _read_mask(sample: Sample, file: Mapping[str, Any]) -> Image.Image:
    """Return a mask file, moved as the pixels of the image."""
    data = sample.read(_place(file["place"]), int(file["size"]), int(file["mtime_ns"]))
    try:
        opened = Image.open(io.BytesIO(data), formats=_FORMATS)
        transform = _checked(sample, opened.size)
        if opened.mode not in _MODES:
            raise ImageRejected(
                "unsupported_mask", f"its mask has the mode {opened.mode}; a mask has one channel of class values"
            )
        values = np.asarray(opened)
    except UnidentifiedImageError:
        raise ImageRejected("unsupported_mask", "its mask is no PNG, BMP, GIF or TIFF file") from None
    except (OSError, SyntaxError, ValueError) as error:
        raise ImageRejected("unsupported_mask", f"its mask cannot be decoded: {error}") from None
    if values.min(initial=0) < 0 or values.max(initial=0) > 65535:
        raise ImageRejected("unsupported_mask", "its mask has values outside 0 to 65535")
    small = values.astype(np.uint8 if values.max(initial=0) < 256 else np.uint16)
    return transform.mask(Image.fromarray(small))


def _checked(sample: Sample, size: tuple[int, int]) -> Transform:
    transform = sample.picture.transform.of_annotations(size)
    if transform is None:
        width, height = sample.picture.transform.original
        raise ImageRejected(
            "size_disagrees", f"its mask has {size[0]} x {size[1]} pixels, the image has {width} x {height}"
        )
    return transform


def _place(given: Any) -> Place:
    """Return a place as the annotation has it: a path, or a list of the fields of ByteRange."""
    if isinstance(given, str):
        return given
    container, offset, length, codec, checksum = given
    return ByteRange(Container(*container), offset, length, codec, checksum)


def _paint(sample: Sample, segments: list[dict[str, Any]]) -> Image.Image:
    """Return the mask of objects, each painted over those before it."""
    transform = annotation_transform(sample)
    width, height = transform.final
    values = np.zeros((height, width), np.uint16)
    for number, segment in enumerate(segments):
        label = sample.classes.get(segment["class"])
        if label is None:
            raise ImageRejected("unknown_class", f"its class '{segment['class']}' is not in the list of classes")
        try:
            values[_object(segment, transform)] = label + 1
        except (ValueError, TypeError, KeyError) as error:
            raise ImageRejected("invalid_segment", f"object {number} cannot be drawn: {error}") from None
    return Image.fromarray(values)


def _object(segment: Mapping[str, Any], transform: Transform) -> npt.NDArray[np.bool_]:
    width, height = transform.final
    if "rle" in segment:
        original = transform.original
        mask = Image.fromarray(object_mask(segment["rle"], *original).astype(np.uint8))
        return np.asarray(transform.mask(mask)).astype(bool)
    drawn = np.zeros((height, width), bool)
    for polygon in segment["polygons"]:
        points = np.array(polygon, np.float32).reshape(-1, 2)
        if len(points) < 3 or not np.isfinite(points).all():
            raise ValueError(f"a polygon has {len(points)} points or one that is not finite")
        drawn |= polygon_mask(transform.points(points), width, height)
    return drawn


def labels(schema: RecordSchema, row: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the labels of the classes in the mask of a stored row; the ignore value counts if it is a class."""
    values = np.asarray(Image.open(io.BytesIO(row[schema.column("mask")])))
    return tuple(int(value) - 1 for value in np.unique(values) if value)


SEGMENTATION = RecordKind(encode, labels)
