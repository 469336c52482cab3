"""Read an image file with the pixels that `dataprep shard` would store, so that prediction matches training.

The pixel policy comes from dataset.json. Pillow decodes the files, because MindSpore's decoder crashes the process on
some broken JPEGs (measured on 2.10).
"""

import io
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from schemas.images.pixels import apply_policy, open_image
from schemas.images.placeholders import describe_text
from schemas.images.png_chunks import PNG_MAGIC, without_bad_extras
from schemas.images.policy import ImageRejected, Policy
from schemas.images.tiff import TIFF_MAGICS, read_directories, unsupported_kind

IMAGE_MAGICS = (b"\xff\xd8\xff", PNG_MAGIC, b"GIF8", b"II*\0", b"MM\0*")


class Unreadable(Exception):
    """Raised if a file is not a usable image; the message gives the reason."""


class NotAnImage(Unreadable):
    """Raised if a file is not an image, for example a text file or a version-control pointer."""


def read_picture(data: bytes, policy: Mapping[str, object]) -> NDArray[np.uint8]:
    """Return the RGB pixels of the encoded image `data`, uint8 (H, W, 3).

    `policy` is the pixel policy of dataset.json, or empty if unknown. An empty policy shrinks no image and converts no
    colour profile. The policy's limits on the shape of training images are not applied. Raises Unreadable if `data` is
    damaged or not a supported image.
    """
    if not data:
        raise Unreadable("the file is empty")
    if data.startswith(PNG_MAGIC):
        data = without_bad_extras(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _read(data, replace(Policy.from_dict(policy), min_side=1, max_aspect=None))
    except UnidentifiedImageError:
        raise _unidentified(data) from None
    except ImageRejected as error:
        raise Unreadable(error.detail) from None
    except MemoryError:
        raise Unreadable("the pixels do not fit into memory") from None
    except Exception as error:  # any error of Pillow's parsers means that the file is damaged
        raise Unreadable(" ".join(str(error).split())[:200] or type(error).__name__) from None


def _read(data: bytes, policy: Policy) -> NDArray[np.uint8]:
    if data.startswith(TIFF_MAGICS) and (kind := unsupported_kind(data, list(read_directories(data)))):
        raise ImageRejected("unsupported_format", f"it is {kind}")
    image, _ = apply_policy(open_image(data, policy), policy)
    return np.asarray(image.convert("RGB"), np.uint8)


def _unidentified(data: bytes) -> Unreadable:
    """Return the error for data that Pillow cannot identify."""
    if data.startswith(IMAGE_MAGICS):
        return Unreadable("the file is damaged: it starts like an image, but its header cannot be read")
    described = describe_text(data[:1024])
    return NotAnImage(f"not an image: {described[1]}" if described else "not an image of a readable format")


def thumbnail(data: bytes, side: int) -> bytes:
    """Return the image as a JPEG with at most `side` pixels per side. Raises Unreadable if read_picture does.

    An image smaller than half of `side` is enlarged by an integer factor, without interpolation.
    """
    small = Image.fromarray(read_picture(data, {"resize": side}))  # `resize` avoids the full decoding of a large JPEG
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    if (factor := side // max(small.size)) > 1:
        small = small.resize((factor * small.width, factor * small.height), Image.Resampling.NEAREST)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


def plain_picture(path: Path) -> NDArray[np.uint8]:
    """Return the RGB pixels of a file, read as in a user's own dataset class, for comparison in `trainer bench`."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"), np.uint8)
