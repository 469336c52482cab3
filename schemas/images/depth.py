"""Pixels of more than eight bits, and signed, 32-bit and float ones, brought to eight bits.

Of 16-bit colour Pillow keeps the high bytes alone. Where fewer bits are in use (`--depth-bits`), the low ones are read
by having it decode the file again, in the other byte order.
"""

import io
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile

from schemas.images.policy import Notes, Policy, Refusal

# TIFF tags
_BITS, _PHOTOMETRIC, _PLANES, _SAMPLE_FORMAT = 258, 262, 284, 339
_WHITE_IS_ZERO = 0
_SEPARATE = 2
_UNSIGNED, _SIGNED = 1, 2
_NATIVE = ";16L" if sys.byteorder == "little" else ";16B"
_SWAPPED = {";16L": ";16B", ";16B": ";16L"}
# LA and premultiplied colours are computed on while they are unpacked.
_LAYOUTS = ("RGB", "RGBX", "RGBA")


def to_grey(image: Image.Image, source: str, policy: Policy, notes: Notes) -> Image.Image | None:
    """The picture in mode L, or LA where one value is transparent; None for one whose pixels are no deep grey. Raises
    Refusal where no value is known to be white and `policy.depth_range` does not say it.

    Values of known depth are shifted as the trainer's decoder does (Pillow's own convert clips at 255). Pillow inverts
    a TIFF whose white is zero up to eight bits; above, it is inverted here.
    """
    values = _values(image, source)
    if values is None:
        return None
    if values.dtype == np.int8 and policy.depth_range is None:
        notes.warnings.append("signed_8_bit")  # more often a wrong label than values below zero: taken as they are
        return None
    grey = _eight_bits(image, values, policy, notes)
    if values.dtype != np.int8 and _tag(image, _PHOTOMETRIC) == (_WHITE_IS_ZERO,):
        grey = np.subtract(255, grey, dtype=np.uint8)
    clear = image.info.get("transparency")
    if isinstance(clear, int) and values.dtype == np.uint16:
        return Image.fromarray(np.dstack([grey, np.where(values == clear, 0, 255).astype(np.uint8)]))
    return Image.fromarray(grey)


def note_low_range(notes: Notes, largest: int) -> None:
    """Warn of a picture whose largest 16-bit value is below a quarter of the range: it comes out nearly black."""
    if 0 < largest < 1 << 14:
        notes.warnings.append("low_range_16_bit")


def _values(image: Image.Image, source: str) -> NDArray[Any] | None:
    """The stored values, in a dtype that holds them as they are meant; uint16 where it is known what white is."""
    mode = image.mode
    if mode.startswith("I;16") or (mode == "I" and source in ("PNG", "PPM")):
        return np.asarray(image).clip(0, 0xFFFF).astype(np.uint16)
    if mode == "I" and _tag(image, _BITS) == (32,) and _tag(image, _SAMPLE_FORMAT) in (None, (_UNSIGNED,)):
        return np.asarray(image).view(np.uint32)  # Pillow keeps 32 unsigned bits as signed ones
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
        raise Refusal(
            "unsupported_depth",
            f"unsupported pixel mode {kind}: its value range is unknown; give it with --depth-range",
        )
    return _shifted(values, 12 if _tag(image, _BITS) == (12,) else policy.depth_bits, notes)


def _tag(image: Image.Image, number: int) -> tuple[int, ...] | None:
    """The values of a TIFF tag; None for another format."""
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
    """Linear from low..high to 0..255, clipped and rounded; what is no number becomes 0."""
    low, high = limits
    share = (values.astype(np.float64) - low) / (high - low)
    return (np.nan_to_num(share, nan=0.0).clip(0, 1) * 255 + 0.5).astype(np.uint8)


def widen_planes(image: ImageFile.ImageFile) -> None:
    """Have an opened TIFF whose 16-bit colours lie uncompressed in separate planes read as such: Pillow asks for 8-bit
    planes, and would show noise. Raises Refusal for planes that it has no reader for.
    """
    if _tag(image, _PLANES) != (_SEPARATE,) or max(_tag(image, _BITS) or (0,)) != 16:
        return
    order = ";16L" if image.tag_v2.prefix == b"II" else ";16B"  # type: ignore[attr-defined]
    tiles = []
    for tile in image.tile:
        plane = tile.args[0] if isinstance(tile.args, tuple) else ""
        if len(plane) == 1 and plane not in "RGBA":
            raise Refusal("unsupported_format", f"it is a TIFF with a 16-bit plane {plane}")
        tiles.append(tile._replace(args=(plane + order, *tile.args[1:])) if tile.args and len(plane) == 1 else tile)
    image.tile = tiles


def low_byte_twin(image: ImageFile.ImageFile) -> Image.Image:
    """The same picture, not loaded yet, which will load the low bytes of its 16-bit values. `image` is opened from
    memory and not loaded either. Raises Refusal for a layout of which that is not known.
    """
    assert isinstance(image.fp, io.BytesIO)
    twin = Image.open(io.BytesIO(image.fp.getvalue()), formats=(str(image.format),))
    tiles = []
    if _tag(twin, _PLANES) == (
        _SEPARATE,
    ):  # libtiff's planes are unpacked in the machine's order, whatever is asked for
        raise Refusal("unsupported_depth", "--depth-bits cannot be applied to colours stored in separate planes")
    for tile in twin.tile:
        rawmode, *others = (tile.args,) if isinstance(tile.args, str) else tile.args or ("",)
        layout, order = rawmode[:-4], rawmode[-4:].replace(";16N", _NATIVE)
        if layout not in _LAYOUTS or order not in _SWAPPED:
            raise Refusal("unsupported_depth", f"--depth-bits cannot be applied to pixels stored as {rawmode}")
        swapped = layout + _SWAPPED[order]
        tiles.append(tile._replace(args=(swapped, *others) if others else swapped))
    twin.tile = tiles
    return twin


def in_use(high: Image.Image, low: Image.Image, bits: int, notes: Notes) -> Image.Image:
    """The colours of two loaded pictures, high and low bytes, shifted so that `bits` bits become eight. Alpha is taken
    as it is: it uses all bits.
    """
    values = np.asarray(high).astype(np.uint16) << 8 | np.asarray(low)
    colours = values[:, :, :3]
    if int(colours.max(initial=0)) >> bits:
        notes.warnings.append("above_depth_bits")
    eight = (colours >> (bits - 8)).clip(0, 255).astype(np.uint8)
    return Image.fromarray(np.dstack([eight, np.asarray(high)[:, :, 3:]]))
