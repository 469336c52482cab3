"""Brings the pixels of an opened image to the policy: orientation, depth, mode, alpha, profile, size, encoding."""

import io
from time import perf_counter
from typing import Any

import numpy as np
from PIL import Image, ImageCms, ImageFile
from PIL.JpegImagePlugin import JpegImageFile, get_sampling

from dataprep.images.depth import in_use, low_byte_twin, note_low_range, to_grey, widen_planes
from dataprep.images.formats.chain import Chain
from dataprep.images.formats.tiff.messages import CodecMessages
from dataprep.images.picture import Picture
from schemas.images.policy import Notes, Policy, Refusal
from schemas.process.memory import demand_room

ANGLES = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_ORIENTATION = 0x0112
_SHORTENED = ("RGB", "RGBA", "CMYK")  # modes of 8 bits in which Pillow opens 16-bit files


def orientation(image: Image.Image) -> int:
    """EXIF orientation 1..8. EXIF that cannot be read counts as none: the pixels are good."""
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except MemoryError:
        raise
    except Exception:  # whatever Pillow's parser trips over
        return 1
    return value if value in ANGLES else 1


def profile_to_convert(image: Image.Image, policy: Policy) -> Any:
    """The embedded colour profile where it is to be converted and is not sRGB; an unreadable one counts as none."""
    data = image.info.get("icc_profile")
    if policy.icc == "ignore" or not data:
        return None
    try:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(data))
        return None if "srgb" in ImageCms.getProfileDescription(profile).lower() else profile
    except MemoryError:
        raise
    except Exception:  # the pixels are good, whatever littlecms trips over
        demand_room(0)
        return None


def is_animated(image: Image.Image) -> bool:
    """Return True for several frames or pages; a JPEG of several pictures is a photo with previews or depth."""
    return image.format != "MPO" and getattr(image, "n_frames", 1) > 1


def remake(opened: ImageFile.ImageFile, chain: Chain, policy: Policy, profile: Any, messages: CodecMessages) -> Picture:
    """Decode an opened image, bring its pixels to the policy and encode them; Pillow's errors come through."""
    image: Image.Image = opened
    notes = Notes(warnings=list(chain.warnings))
    changed = notes.changed
    source = str(image.format)
    if is_animated(image):
        changed.append("first_frame")
    full = image.size
    sampling = _sampling(image)
    if policy.resize is not None and source in ("JPEG", "MPO"):
        image.draft(None, (policy.resize, policy.resize))  # libjpeg shrinks by 2, 4 or 8 while it decodes
    widen_planes(opened)
    shallow = chain.deep and policy.depth_bits < 16 and image.mode in ("RGB", "RGBA")
    twin = low_byte_twin(opened) if shallow else None
    notes.warnings += messages.load(image)
    angle = orientation(image)  # after loading: Pillow turns a TIFF by itself, and then drops the tag
    if chain.deep and image.mode in _SHORTENED:
        changed.append("depth_16_to_8")  # Pillow has shifted the values by 8 while loading
        if twin is not None:
            messages.load(twin)
            image = in_use(image, twin, policy.depth_bits, notes)
        elif image.mode != "CMYK":  # little ink is a light picture
            note_low_range(notes, int(np.asarray(image)[:, :, :3].max(initial=0)) << 8)
    if profile is not None:
        image = _to_srgb(image, profile, changed)
    image = to_eight_bit(image, source, policy, notes)
    if angle != 1:
        image = image.transpose(ANGLES[angle])
        full = full[::-1] if angle >= 5 else full
        changed.append("exif_rotated")
    if policy.resize is not None and min(full) > policy.resize:
        image = _shrink(image, full, policy.resize)
        changed.append("resized")
    if image.mode == "RGBA":
        image = flatten(image, policy.background)
        changed.append("alpha_flattened")
    target = _target(source, policy)
    if target != ("JPEG" if source == "MPO" else source):
        changed.append(f"{source.lower()}_to_{target.lower()}")
    if not changed:
        changed.append("recoded")  # a kind of JPEG or PNG that not every decoder reads
    started = perf_counter()
    encoded = _encode(image, target, policy, sampling)
    seconds = perf_counter() - started
    return Picture(encoded, *image.size, tuple(changed), image, seconds, tuple(dict.fromkeys(notes.warnings)))


def _to_srgb(image: Image.Image, profile: Any, changed: list[str]) -> Image.Image:
    """The picture in sRGB; left as it is where the profile does not fit the pixels."""
    try:
        done = ImageCms.profileToProfile(image, profile, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except ImageCms.PyCMSError:
        demand_room(image.width * image.height)
        return image
    if done is None or image.mode not in ("RGB", "CMYK"):
        return image
    changed.append("icc_converted")
    return done


def _target(source: str, policy: Policy) -> str:
    if policy.image_format == "keep":
        return "JPEG" if source in ("JPEG", "MPO") else "PNG"
    return policy.image_format.upper()


def to_eight_bit(image: Image.Image, source: str, policy: Policy, notes: Notes) -> Image.Image:
    """The picture in mode RGB or L, or RGBA where it has transparent parts; raises Refusal for an unknown depth."""
    grey = to_grey(image, source, policy, notes)
    if grey is not None and grey.mode == "L":
        return grey
    image = grey or image
    mode = image.mode
    if mode in ("RGBA", "RGBa", "LA", "La", "PA") or "transparency" in image.info:
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
    """Lay the picture over one colour: what lies under transparent pixels is garbage that no one saw."""
    ground = Image.new("RGBA", image.size, (*background, 255))
    return Image.alpha_composite(ground, image).convert("RGB")


def _shrink(image: Image.Image, full: tuple[int, int], short_side: int) -> Image.Image:
    """Shrink to a short side; the sides' ratio is that of the `full` size, before any shrinking while decoding."""
    scale = short_side / min(full)
    width, height = (max(short_side, round(side * scale)) for side in full)
    return image.resize((width, height), Image.Resampling.LANCZOS, reducing_gap=3.0)


# What Pillow calls the samplings of colour that it writes; -1 leaves the choice to it (4:2:0).
_FULL, _HALF_WIDTH, _DEFAULT = 0, 1, -1


def _sampling(image: Image.Image) -> int:
    """The sampling of colour that a JPEG is encoded with: that of an opened JPEG source, so that it loses no colour.

    Full for those that Pillow cannot write: CMYK, whose print colours have none, and half height, which half width
    becomes when the picture is turned. Measured on CMYK squares: mean difference 21 at 4:2:0, 2 at 4:4:4.
    """
    if not isinstance(image, JpegImageFile):
        return _DEFAULT
    sampling = get_sampling(image)
    turned_half = sampling == _HALF_WIDTH and orientation(image) >= 5
    return _FULL if sampling == _DEFAULT or turned_half else sampling


def _encode(image: Image.Image, target: str, policy: Policy, sampling: int) -> bytes:
    buffer = io.BytesIO()
    if target == "JPEG" and max(image.size) > 65_500:
        raise Refusal("too_large", f"{image.width} x {image.height} pixels do not fit into a JPEG")
    options: dict[str, Any] = {"compress_level": 6}
    if target == "JPEG":
        options = {"quality": policy.quality, "subsampling": sampling}
    image.info = {}  # or a profile, comment or EXIF of the source would come along
    image.save(buffer, target, **options)
    return buffer.getvalue()
