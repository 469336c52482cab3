"""Apply the pixel policy to an image: orientation, bit depth, colour profile, size, background.

`dataprep shard` and `trainer predict` share this implementation, so a model gets the same pixels as in training.
"""

import functools
import io
from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageCms, ImageFile

from schemas.images.depth import combine_bytes, is_deep, note_low_range, open_low_bytes, to_eight_bit_grey, widen_planes
from schemas.images.policy import ImageRejected, Notes, Policy
from schemas.process.memory import demand_room

# Not included: formats without a magic number, which accept any data, and EPS, which starts a program.
_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "PPM", "JPEG2000", "AVIF", "QOI")
_ORIENTATION = 0x0112  # EXIF tag
_TRANSPOSES = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SHORTENED = ("RGB", "RGBA", "CMYK")  # 8-bit modes in which Pillow opens 16-bit files
_WITH_ALPHA = ("RGBA", "RGBa", "LA", "La", "PA")


@functools.cache
def readable_formats() -> tuple[str, ...]:
    """Return Pillow's names of the formats that are read.

    The first call loads Pillow's plugins and switches off its own size limit for the process: Policy.max_pixels is
    checked instead, before anything is decoded. Raises MemoryError if the plugins may not fit into memory.
    """
    demand_room(0)  # Pillow silently leaves out a plugin that cannot be loaded
    Image.init()
    Image.MAX_IMAGE_PIXELS = None
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def open_image(data: bytes, policy: Policy) -> ImageFile.ImageFile:
    """Open an image file and check its header against the policy; no pixels are decoded.

    Raises ImageRejected for an image that the policy rejects. Raises PIL.UnidentifiedImageError for data in no readable
    format. Other errors of Pillow pass through.
    """
    image: ImageFile.ImageFile = Image.open(io.BytesIO(data), formats=readable_formats())
    check_size(*image.size, policy)
    if policy.animation == "reject" and is_animated(image):
        raise ImageRejected("animated", "it has several frames or pages, and --animation is reject")
    return image


def check_size(width: int, height: int, policy: Policy) -> None:
    """Raise ImageRejected unless a size in pixels is within the policy's limits."""
    if width < 1 or height < 1:
        raise ImageRejected("corrupt", f"its header says {width} x {height} pixels")
    if width * height > policy.max_pixels:
        raise ImageRejected("too_large", f"it has {width} x {height} pixels; the limit is {policy.max_pixels}")
    if min(width, height) < policy.min_side:
        raise ImageRejected(
            "too_small", f"it has {width} x {height} pixels; the short side must have at least {policy.min_side}"
        )
    if policy.max_aspect and max(width, height) > policy.max_aspect * min(width, height):
        raise ImageRejected(
            "extreme_aspect", f"it has {width} x {height} pixels; the limit is {policy.max_aspect:g} to 1"
        )


def is_animated(image: Image.Image) -> bool:
    """Return True for several frames or pages. False for a JPEG with several pictures: previews or depth maps."""
    return image.format != "MPO" and getattr(image, "n_frames", 1) > 1


def orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, 1 to 8. Unreadable EXIF data gives 1, since the pixels are valid."""
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except MemoryError:
        raise
    except Exception:  # any error of Pillow's parser
        return 1
    return value if value in _TRANSPOSES else 1


def turn_upright(image: Image.Image, angle: int) -> Image.Image:
    """Return the image rotated or mirrored according to its EXIF orientation `angle`."""
    return image.transpose(_TRANSPOSES[angle]) if angle != 1 else image


def profile_to_convert(image: Image.Image, policy: Policy) -> ImageCms.ImageCmsProfile | None:
    """Return the embedded colour profile if the policy converts it to sRGB; None if it is sRGB or unreadable."""
    data = image.info.get("icc_profile")
    if policy.icc == "ignore" or not data:
        return None
    try:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(data))
        return None if "srgb" in ImageCms.getProfileDescription(profile).lower() else profile
    except MemoryError:
        raise
    except Exception:  # any error of littlecms: the pixels are valid
        demand_room(0)
        return None


def load_pixels(image: Image.Image) -> tuple[str, ...]:
    """Decode the pixels of an opened image in place. Return an empty tuple of warnings."""
    image.load()
    return ()


def apply_policy(
    opened: ImageFile.ImageFile, policy: Policy, load: Callable[[Image.Image], Sequence[str]] = load_pixels
) -> tuple[Image.Image, Notes]:
    """Decode an opened image and apply the pixel policy to it.

    `opened` was opened from memory and is not loaded yet. `load` decodes an image in place and returns warnings.

    Returns the image in mode RGB or L, and notes of changes and warnings. Raises ImageRejected for pixels that the
    policy does not cover. Errors of Pillow pass through.
    """
    notes = Notes()
    source, size, resize = str(opened.format), opened.size, policy.resize
    if is_animated(opened):
        notes.changed.append("first_frame")
    profile = profile_to_convert(opened, policy)
    if resize is not None and source in ("JPEG", "MPO"):
        opened.draft(None, (resize, resize))  # libjpeg shrinks by 2, 4 or 8 while it decodes
    turned = orientation(opened) if source == "TIFF" else 1
    image = _decode(opened, policy, load, notes)
    angle = orientation(opened)  # after loading: Pillow rotates a TIFF itself and then drops the tag
    if turned != angle == 1:
        size = image.size
    if profile is not None:
        image = _to_srgb(image, profile, notes)
    image = to_eight_bit(image, source, policy, notes)
    if angle != 1:
        image = turn_upright(image, angle)
        size = size[::-1] if angle >= 5 else size
        notes.changed.append("exif_rotated")
    notes.angle, notes.upright = max(angle, turned), size
    if resize is not None and min(size) > resize:
        image = _shrink(image, size, resize)
        notes.changed.append("resized")
    if image.mode == "RGBA":
        image = flatten(image, policy.background)
        notes.changed.append("alpha_flattened")
    return image, notes


def _decode(
    opened: ImageFile.ImageFile, policy: Policy, load: Callable[[Image.Image], Sequence[str]], notes: Notes
) -> Image.Image:
    """Load an opened image and reduce 16-bit colours to the eight bits that the policy selects."""
    widen_planes(opened)
    deep = is_deep(opened)
    shallow = deep and policy.depth_bits < 16 and opened.mode in ("RGB", "RGBA")
    low_bytes = open_low_bytes(opened) if shallow else None
    notes.warnings += load(opened)
    if not deep or opened.mode not in _SHORTENED:
        return opened
    notes.changed.append("depth_16_to_8")  # Pillow has shifted the values by 8 while loading
    if low_bytes is not None:
        load(low_bytes)
        return combine_bytes(opened, low_bytes, policy.depth_bits, notes)
    if opened.mode != "CMYK":  # in CMYK, low values are light
        note_low_range(notes, int(np.asarray(opened)[:, :, :3].max(initial=0)) << 8)
    return opened


def _to_srgb(image: Image.Image, profile: ImageCms.ImageCmsProfile, notes: Notes) -> Image.Image:
    """Return the image in sRGB, or unchanged if the profile does not fit the pixels."""
    try:
        converted = ImageCms.profileToProfile(image, profile, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except ImageCms.PyCMSError:
        demand_room(image.width * image.height)
        return image
    if converted is None or image.mode not in ("RGB", "CMYK"):
        return image
    notes.changed.append("icc_converted")
    return converted


def to_eight_bit(image: Image.Image, source: str, policy: Policy, notes: Notes) -> Image.Image:
    """Return the image in mode RGB or L, or RGBA if it has transparent parts. `source` is Pillow's name of its format.

    Raises ImageRejected for an unknown value range.
    """
    grey = to_eight_bit_grey(image, source, policy, notes)
    if grey is not None and grey.mode == "L":
        return grey
    image = grey or image
    mode = image.mode
    if mode in _WITH_ALPHA or "transparency" in image.info:
        image = image.convert("RGBA")
        if image.getchannel("A").getextrema()[1] == 0:
            notes.warnings.append("transparent_everywhere")
        return image
    if mode == "1":
        notes.changed.append("bilevel_to_grey")
        return image.convert("L")
    if mode == "P":
        notes.changed.append("palette_expanded")
    elif mode not in ("L", "RGB"):
        notes.changed.append(f"{mode.lower()}_to_rgb")
    return image if mode in ("L", "RGB") else image.convert("RGB")


def flatten(image: Image.Image, background: tuple[int, int, int]) -> Image.Image:
    """Return an RGBA image composited over one colour, in mode RGB; transparent pixels have arbitrary colours."""
    ground = Image.new("RGBA", image.size, (*background, 255))
    return Image.alpha_composite(ground, image).convert("RGB")


def _shrink(image: Image.Image, size: tuple[int, int], short_side: int) -> Image.Image:
    """Shrink to a short side, in the aspect ratio of `size`, which is the size before decoding shrank the image."""
    scale = short_side / min(size)
    width, height = (max(short_side, round(side * scale)) for side in size)
    return image.resize((width, height), Image.Resampling.LANCZOS, reducing_gap=3.0)
