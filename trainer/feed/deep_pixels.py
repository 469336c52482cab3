"""Pixels of more than eight bits as `dataprep shard` brings them to eight; NumPy only, picture.py reads the files."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

# TIFF tags
BITS, PHOTOMETRIC, PLANES, SAMPLE_FORMAT = 258, 262, 284, 339
_WHITE_IS_ZERO = (0,)
_UNSIGNED, _SIGNED = (1,), (2,)
_SWAPPED = {";16L": ";16B", ";16B": ";16L", ";16N": ";16B" if sys.byteorder == "little" else ";16L"}
_COLOUR_LAYOUTS = ("RGB", "RGBX", "RGBA")

Tag = Callable[[int], tuple[int, ...] | None]


def stored_values(pixels: Any, mode: str, kind: str | None, tag: Tag) -> NDArray[Any] | None:
    """The values of grey pixels as they are meant, uint16 where white is known; None for other modes. `tag` gives a
    TIFF tag's values.
    """
    if mode.startswith("I;16") or (mode == "I" and kind in ("PNG", "PPM")):
        return np.asarray(pixels).clip(0, 0xFFFF).astype(np.uint16)
    if mode == "I" and tag(BITS) == (32,) and tag(SAMPLE_FORMAT) in (None, _UNSIGNED):
        return np.asarray(pixels).view(np.uint32)
    if mode in ("I", "F"):
        return np.asarray(pixels)
    if mode == "L" and tag(SAMPLE_FORMAT) == _SIGNED and tag(PHOTOMETRIC) != _WHITE_IS_ZERO:
        return np.asarray(pixels).view(np.int8)
    return None


def eight_bit_grey(values: NDArray[Any], policy: Mapping[str, Any], tag: Tag) -> NDArray[np.uint8] | None:
    """The values as the policy maps them; None where their range is not known."""
    grey: NDArray[np.uint8]
    if policy.get("depth_range") is not None:
        low, high = policy["depth_range"]
        share = (values.astype(np.float64) - low) / (high - low)
        grey = (np.nan_to_num(share, nan=0.0).clip(0, 1) * 255 + 0.5).astype(np.uint8)
    elif values.dtype == np.int8:
        grey = values.view(np.uint8)
    elif values.dtype != np.uint16:
        return None
    else:
        bits = 12 if tag(BITS) == (12,) else policy.get("depth_bits", 16)
        grey = (values >> (bits - 8)).clip(0, 255).astype(np.uint8)
    if values.dtype != np.int8 and tag(PHOTOMETRIC) == _WHITE_IS_ZERO:
        grey = np.subtract(255, grey, dtype=np.uint8)
    return grey


def low_byte_layout(layout: str) -> str | None:
    """Pillow's name of a 16-bit colour layout with its bytes swapped, which decodes the low bytes; None for others."""
    swapped = _SWAPPED.get(layout[-4:])
    return layout[:-4] + swapped if swapped and layout[:-4] in _COLOUR_LAYOUTS else None


def eight_bit_colours(high: NDArray[np.uint8], low: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Colours of `bits` bits from the two bytes of their values; alpha keeps its high byte."""
    values = high[:, :, :3].astype(np.uint16) << 8 | low[:, :, :3]
    return np.dstack([(values >> (bits - 8)).clip(0, 255).astype(np.uint8), high[:, :, 3:]])
