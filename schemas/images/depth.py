"""Convert pixels of more than eight bits, and signed, 32-bit and float pixels, to eight bits.

Pillow keeps only the high bytes of 16-bit colours. If fewer bits are in use (`--depth-bits`), the file is decoded a
second time in the other byte order to read the low bytes.
"""

import io
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile

from schemas.images.policy import ImageRejected, Notes, Policy

# TIFF tags
_BITS, _PHOTOMETRIC, _PLANES, _SAMPLE_FORMAT = 258, 262, 284, 339
_WHITE_IS_ZERO = 0
_SEPARATE = 2
_UNSIGNED, _SIGNED = 1, 2
_NATIVE = ";16L" if sys.byteorder == "little" else ";16B"
_SWAPPED = {";16L": ";16B", ";16B": ";16L"}
# Pixel layouts that Pillow unpacks unchanged, unlike LA and premultiplied colours.
_LAYOUTS = ("RGB", "RGBX", "RGBA")


def is_deep(image: ImageFile.ImageFile) -> bool:
    """Return True for a PNG or TIFF of more than eight bits per channel. `image` is opened and not loaded."""
    if image.format == "PNG":
        return any(";16" in str(tile.args) for tile in image.tile)
    return max(_tag(image, _BITS) or (0,)) > 8


def to_eight_bit_grey(image: Image.Image, source: str, policy: Policy, notes: Notes) -> Image.Image | None:
    """Return grey pixels of more than eight bits in mode L, or LA if one value is transparent; None for others.

    Values of known depth are shifted, as in the trainer's decoder (Pillow's own convert clips at 255). Pillow inverts
    white-is-zero TIFFs of up to eight bits; deeper TIFFs are inverted here.

    Raises ImageRejected for an unknown value range if `policy.depth_range` does not give it.
    """
    values = _stored_values(image, source)
    if values is None:
        return None
    if values.dtype == np.int8 and policy.depth_range is None:
        notes.warnings.append("signed_8_bit")  # usually a wrong tag: the values are read as unsigned
        return None
    grey = _eight_bits(image, values, policy, notes)
    if values.dtype != np.int8 and _tag(image, _PHOTOMETRIC) == (_WHITE_IS_ZERO,):
        grey = np.subtract(255, grey, dtype=np.uint8)
    clear = image.info.get("transparency")
    if isinstance(clear, int) and values.dtype == np.uint16:
        return Image.fromarray(np.dstack([grey, np.where(values == clear, 0, 255).astype(np.uint8)]))
    return Image.fromarray(grey)


def note_low_range(notes: Notes, largest: int) -> None:
    """Add a warning if the `largest` 16-bit value is below a quarter of the range: the image becomes nearly black."""
    if 0 < largest < 1 << 14:
        notes.warnings.append("low_range_16_bit")


def _stored_values(image: Image.Image, source: str) -> NDArray[Any] | None:
    """Return grey values of more than eight bits in the dtype of the file; None for other pixels.

    The dtype is uint16 if the value range is known.
    """
    mode = image.mode
    if mode.startswith("I;16") or (mode == "I" and source in ("PNG", "PPM")):
        return np.asarray(image).clip(0, 0xFFFF).astype(np.uint16)
    if mode == "I" and _tag(image, _BITS) == (32,) and _tag(image, _SAMPLE_FORMAT) in (None, (_UNSIGNED,)):
        return np.asarray(image).view(np.uint32)  # Pillow stores unsigned 32-bit values as signed
    if mode in ("I", "F"):
        return np.asarray(image)
    if mode == "L" and _tag(image, _SAMPLE_FORMAT) == (_SIGNED,) and _tag(image, _PHOTOMETRIC) != (_WHITE_IS_ZERO,):
        return np.asarray(image).view(np.int8)
    return None


def _eight_bits(image: Image.Image, values: NDArray[Any], policy: Policy, notes: Notes) -> NDArray[np.uint8]:
    if policy.depth_range is not None:
        notes.changed.append("depth_range_mapped")
        if values.dtype.kind == "f" and np.isnan(values).any():
            notes.warnings.append("not_a_number_pixels")
        return _mapped(values, policy.depth_range)
    if values.dtype != np.uint16:
        kind = f"{image.mode} ({values.dtype})"
        raise ImageRejected(
            "unsupported_depth",
            f"unsupported pixel mode {kind}: its value range is unknown; set --depth-range of 'dataprep shard'",
        )
    return _shifted(values, 12 if _tag(image, _BITS) == (12,) else policy.depth_bits, notes)


def _tag(image: Image.Image, number: int) -> tuple[int, ...] | None:
    """Return the values of a TIFF tag; None if the image has no such tag."""
    tags = getattr(image, "tag_v2", None)
    value = tags.get(number) if tags is not None else None
    return value if isinstance(value, tuple) else None if value is None else (value,)


def _shifted(values: NDArray[Any], bits: int, notes: Notes) -> NDArray[np.uint8]:
    notes.changed.append("depth_16_to_8")
    if bits == 16:
        note_low_range(notes, int(values.max(initial=0)))
    elif values.max(initial=0) >> bits:
        notes.warnings.append("above_depth_bits")
    return (values >> (bits - 8)).clip(0, 255).astype(np.uint8)


def _mapped(values: NDArray[Any], limits: tuple[float, float]) -> NDArray[np.uint8]:
    """Map low..high to 0..255 linearly, clipped and rounded; NaN becomes 0."""
    low, high = limits
    share = (values.astype(np.float64) - low) / (high - low)
    return (np.nan_to_num(share, nan=0.0).clip(0, 1) * 255 + 0.5).astype(np.uint8)


def widen_planes(image: ImageFile.ImageFile) -> None:
    """Make Pillow read 16-bit colours from the separate planes of an opened TIFF.

    Pillow expects 8-bit planes and returns noise if the planes are uncompressed. Raises ImageRejected for planes that
    Pillow cannot read.
    """
    if _tag(image, _PLANES) != (_SEPARATE,) or max(_tag(image, _BITS) or (0,)) != 16:
        return
    order = ";16L" if image.tag_v2.prefix == b"II" else ";16B"  # type: ignore[attr-defined]
    tiles = []
    for tile in image.tile:
        plane = tile.args[0] if isinstance(tile.args, tuple) else ""
        if len(plane) == 1 and plane not in "RGBA":
            raise ImageRejected("unsupported_format", f"it is a TIFF with a 16-bit plane of type {plane}")
        tiles.append(tile._replace(args=(plane + order, *tile.args[1:])) if tile.args and len(plane) == 1 else tile)
    image.tile = tiles


def open_low_bytes(image: ImageFile.ImageFile) -> Image.Image:
    """Open the file of `image` again, so that loading it gives the low bytes of its 16-bit values.

    `image` was opened from memory and is not loaded yet. Raises ImageRejected if its pixel layout prevents this.
    """
    assert isinstance(image.fp, io.BytesIO)
    opened = Image.open(io.BytesIO(image.fp.getvalue()), formats=(str(image.format),))
    if _tag(opened, _PLANES) == (_SEPARATE,):  # libtiff always unpacks in the machine's order
        raise ImageRejected("unsupported_depth", "--depth-bits cannot be applied to colours stored in separate planes")
    tiles = []
    for tile in opened.tile:
        rawmode, *others = (tile.args,) if isinstance(tile.args, str) else tile.args or ("",)
        layout, order = rawmode[:-4], rawmode[-4:].replace(";16N", _NATIVE)
        if layout not in _LAYOUTS or order not in _SWAPPED:
            raise ImageRejected("unsupported_depth", f"--depth-bits cannot be applied to pixels stored as {rawmode}")
        swapped = layout + _SWAPPED[order]
        tiles.append(tile._replace(args=(swapped, *others) if others else swapped))
    opened.tile = tiles
    return opened


def combine_bytes(high: Image.Image, low: Image.Image, bits: int, notes: Notes) -> Image.Image:
    """Combine the high and low bytes of the same colours, and shift values of `bits` bits down to eight bits.

    Alpha keeps its high byte, since alpha uses all bits.
    """
    values = np.asarray(high).astype(np.uint16) << 8 | np.asarray(low)
    colours = values[:, :, :3]
    if int(colours.max(initial=0)) >> bits:
        notes.warnings.append("above_depth_bits")
    eight = (colours >> (bits - 8)).clip(0, 255).astype(np.uint8)
    return Image.fromarray(np.dstack([eight, np.asarray(high)[:, :, 3:]]))
