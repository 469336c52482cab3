"""One image from disk as `dataprep shard` would have stored it, so that a model sees what it was trained on.

The two programs meet only in dataset.json, whose `policy` says what was done to pixels; this applies the same to a file
that was never sharded, and encodes nothing. Read with Pillow: MindSpore's own decoder dies by a signal on some broken
JPEGs (measured on 2.10), which would end a whole job for one file. The only module here that uses Pillow.
"""

import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms, UnidentifiedImageError

from schemas.images.png_chunks import PNG_MAGIC, bad_extras, without
from schemas.images.stand_ins import describe_text
from trainer.feed.deep_pixels import (
    BITS,
    PHOTOMETRIC,
    PLANES,
    eight_bit_colours,
    eight_bit_grey,
    low_byte_layout,
    stored_values,
)

# The formats that dataprep reads. Not among them: those without a magic number, and EPS, which starts a program.
Image.init()  # or which formats there are would depend on what was opened before
FORMATS = tuple(
    name
    for name in ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "PPM", "JPEG2000", "AVIF", "QOI")
    if name in Image.OPEN
)
IMAGE_BEGINNINGS = (b"\xff\xd8\xff", PNG_MAGIC, b"GIF8", b"II*\0", b"MM\0*")
WHITE = (255, 255, 255)
WITH_ALPHA = ("RGBA", "RGBa", "LA", "La", "PA")
ORIENTATION = 0x0112  # the EXIF tag
NEW_SUBFILE_TYPE, SUB_DIRECTORIES, DNG_VERSION = 254, 330, 50706  # TIFF tags
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class Unreadable(Exception):
    """The file is no image that can be used; the text says why."""


class NotAnImage(Unreadable):
    """The file is something else than an image: text, a pointer of version control, another format."""


def read_picture(data: bytes, policy: Mapping[str, Any]) -> NDArray[np.uint8]:
    """The pixels, uint8 (H, W, 3) in RGB, of the image file's bytes; raises Unreadable.

    `policy` is that of dataset.json, empty when it is not known: then nothing is shrunk and no profile is converted.
    """
    if not data:
        raise Unreadable("the file is empty")
    if data.startswith(PNG_MAGIC):
        data = without(data, bad_extras(data))  # as while sharding: Pillow refuses a picture over a damaged text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(_opaque(_loaded(data, policy), tuple(policy.get("background", WHITE))), np.uint8)
    except UnidentifiedImageError:
        raise _unidentified(data) from None
    except MemoryError:
        raise Unreadable("its pixels do not fit into memory") from None
    except Unreadable:
        raise
    except Exception as error:  # whatever Pillow's parsers raise condemns the file, and it alone
        raise Unreadable(" ".join(str(error).split())[:200] or type(error).__name__) from None


def _unidentified(data: bytes) -> Unreadable:
    """Return the error for what Pillow finds no image in: its content says what it is, as while sharding."""
    if data.startswith(IMAGE_BEGINNINGS):
        return Unreadable("it is damaged: it begins like an image, and its header cannot be read")
    found = describe_text(data[:1024])
    return NotAnImage(f"not an image: {found[1]}" if found else "it is no image of a kind that is read here")


def thumbnail(data: bytes, side: int) -> bytes:
    """A JPEG of the image with at most `side` pixels a side; below half of that it is enlarged by a whole factor, each
    pixel to a square. Raises Unreadable.
    """
    small = Image.fromarray(read_picture(data, {"resize": side}))  # which spares decoding a large JPEG in full
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    if (factor := side // max(small.size)) > 1:
        small = small.resize((factor * small.width, factor * small.height), Image.Resampling.NEAREST)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


def plain_picture(path: Path) -> NDArray[np.uint8]:
    """The pixels of a file as people's own datasets read them, with nothing seen to: what `trainer bench` compares."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"), np.uint8)


def _loaded(data: bytes, policy: Mapping[str, Any]) -> Image.Image:
    image: Image.Image = Image.open(io.BytesIO(data), formats=FORMATS)
    if policy.get("animation") == "reject" and image.format != "MPO" and getattr(image, "n_frames", 1) > 1:
        raise Unreadable("it has several frames, which the training set's policy rejects")
    if image.format == "TIFF" and (data[8:10] == b"CR" or _is_raw(image.tag_v2)):  # type: ignore[attr-defined]
        raise Unreadable("it is camera raw; develop it to JPEG, PNG or TIFF first")
    kind, full, short = image.format, image.size, policy.get("resize")
    if short is not None and kind in ("JPEG", "MPO"):
        image.draft(None, (short, short))  # libjpeg shrinks by 2, 4 or 8 while it decodes
    _widen_planes(image)
    bits = policy.get("depth_bits", 16)
    low_bytes = _low_bytes(data, image) if bits < 16 else None
    image.load()
    turn = _orientation(image)  # after loading: Pillow turns a TIFF by itself, and then drops the tag
    if low_bytes is not None:
        profile = image.info.get("icc_profile")
        image = Image.fromarray(eight_bit_colours(np.asarray(image), np.asarray(low_bytes), bits))
        image.info = {"icc_profile": profile}
    image = _eight_bit(_in_srgb(image, policy), kind, policy)
    if turn in TURNS:
        image = image.transpose(TURNS[turn])
        full = full[::-1] if turn >= 5 else full
    if short is not None and min(full) > short:
        scale = short / min(full)
        width, height = (max(short, round(side * scale)) for side in full)
        image = image.resize((width, height), Image.Resampling.LANCZOS, reducing_gap=3.0)
    return image


def _is_raw(tags: Mapping[int, Any]) -> bool:
    """Camera raw in a TIFF: sensor values, or a thumbnail above them. Sharding refuses it: its pixels are not the
    picture.
    """
    sensor = tags.get(PHOTOMETRIC) in (32803, 34892)
    return sensor or DNG_VERSION in tags or bool(tags.get(NEW_SUBFILE_TYPE, 0) & 1 and SUB_DIRECTORIES in tags)


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # EXIF that cannot be read counts as none: the pixels are good
        return 1


def _in_srgb(image: Image.Image, policy: Mapping[str, Any]) -> Image.Image:
    profile = image.info.get("icc_profile")
    if policy.get("icc") != "convert" or not profile or image.mode not in ("RGB", "CMYK"):
        return image
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        done = ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except (OSError, ImageCms.PyCMSError):
        return image  # as while sharding: the pixels are good, whatever littlecms trips over
    return image if done is None else done


def _widen_planes(image: Any) -> None:
    """Have 16-bit colours that lie uncompressed in separate planes of a TIFF read as such: Pillow asks for 8 bits."""
    if not _in_wide_planes(image):
        return
    order = ";16L" if image.tag_v2.prefix == b"II" else ";16B"
    planes = [tile.args[0] for tile in image.tile]
    if any(len(plane) == 1 and plane not in "RGBA" for plane in planes):
        raise Unreadable("its planes of 16 bits are of a kind that is not read here")
    image.tile = [
        tile._replace(args=(plane + order, *tile.args[1:])) if len(plane) == 1 else tile
        for tile, plane in zip(image.tile, planes, strict=True)
    ]


def _in_wide_planes(image: Any) -> bool:
    tags = getattr(image, "tag_v2", {})
    return bool(tags.get(PLANES) == 2 and tags.get(BITS, (0,))[0] == 16)


def _low_bytes(data: bytes, image: Image.Image) -> Image.Image | None:
    """The low bytes of a 16-bit colour picture that is opened and not loaded; None for another. Pillow keeps the high
    ones, so the file is decoded a second time with its byte order swapped.
    """
    if image.mode not in ("RGB", "RGBA") or image.format not in ("PNG", "TIFF"):
        return None
    twin = Image.open(io.BytesIO(data), formats=FORMATS)
    if _in_wide_planes(twin):
        raise Unreadable("--depth-bits cannot be applied to colours stored in separate planes")
    tiles = []
    for tile in twin.tile:
        layout, *others = (tile.args,) if isinstance(tile.args, str) else tile.args or ("",)
        if ";16" not in layout:
            return None
        if (swapped := low_byte_layout(layout)) is None:
            raise Unreadable(f"--depth-bits cannot be applied to pixels stored as {layout}")
        tiles.append(tile._replace(args=(swapped, *others) if others else swapped))
    twin.tile = tiles
    twin.load()
    return twin


def _eight_bit(image: Image.Image, kind: str | None, policy: Mapping[str, Any]) -> Image.Image:
    """Mode RGB, L or RGBA. 16-bit grey is shifted by 8, as MindSpore's decoder does; Pillow's convert clips at 255."""

    def tag(number: int) -> tuple[int, ...] | None:
        value = getattr(image, "tag_v2", {}).get(number)
        return value if isinstance(value, tuple) else None if value is None else (value,)

    values = stored_values(image, image.mode, kind, tag)
    if values is not None:
        grey = eight_bit_grey(values, policy, tag)
        if grey is None:
            raise Unreadable(f"unsupported pixel mode {image.mode} ({values.dtype}): its value range is unknown")
        clear = image.info.get("transparency")
        if isinstance(clear, int) and values.dtype == np.uint16:
            alpha = np.where(values == clear, 0, 255).astype(np.uint8)
            return Image.fromarray(np.dstack([grey, alpha])).convert("RGBA")
        return Image.fromarray(grey)
    if image.mode in WITH_ALPHA or "transparency" in image.info:
        return image.convert("RGBA")
    return image if image.mode in ("L", "RGB") else image.convert("RGB")


def _opaque(image: Image.Image, background: tuple[int, ...]) -> Image.Image:
    if image.mode == "RGBA":
        image = Image.alpha_composite(Image.new("RGBA", image.size, (*background, 255)), image)
    return image.convert("RGB")
