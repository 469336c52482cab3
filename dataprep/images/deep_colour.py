"""16-bit colour of which fewer bits are in use.

Pillow keeps the high bytes alone. The low ones are read by having it decode the file again, in the other byte order.
"""

import io
import sys

import numpy as np
from PIL import Image, ImageFile

from dataprep.images.policy import Notes, Refusal

_NATIVE = ";16L" if sys.byteorder == "little" else ";16B"
_SWAPPED = {";16L": ";16B", ";16B": ";16L"}
# LA and premultiplied colours are computed on while they are unpacked; separate planes are unpacked by their order.
_LAYOUTS = ("RGB", "RGBX", "RGBA")


def low_byte_twin(image: ImageFile.ImageFile) -> Image.Image:
    """The same picture, not loaded yet, which will load the low bytes of its 16-bit values. `image` is opened from
    memory and not loaded either. Raises Refusal for a layout of which that is not known.
    """
    assert isinstance(image.fp, io.BytesIO)
    twin = Image.open(io.BytesIO(image.fp.getvalue()), formats=(str(image.format),))
    tiles = []
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
