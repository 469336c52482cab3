"""Brings the pixels of an opened image to the policy: orientation, depth, mode, alpha, profile, size, encoding."""

import io
from time import perf_counter
from typing import Any

from PIL import Image, ImageCms

from dataprep.images.chain import Chain
from dataprep.images.policy import Picture, Policy, Refusal
from dataprep.memory import demand_room

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


def remake(image: Image.Image, chain: Chain, policy: Policy, profile: Any) -> Picture:
    """Decode an opened image, bring its pixels to the policy and encode them; Pillow's errors come through."""
    changed: list[str] = []
    source = str(image.format)
    if is_animated(image):
        changed.append("first_frame")
    full = image.size
    if policy.resize is not None and source in ("JPEG", "MPO"):
        image.draft(None, (policy.resize, policy.resize))  # libjpeg shrinks by 2, 4 or 8 while it decodes
    image.load()
    angle = orientation(image)  # after loading: Pillow turns a TIFF by itself, and then drops the tag
    if profile is not None:
        image = _to_srgb(image, profile, changed)
    if chain.deep and image.mode == "RGB":
        changed.append("depth_16_to_8")  # Pillow has shifted the values by 8 while loading
    image = to_eight_bit(image, source, changed)
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
    encoded = _encode(image, target, policy)
    return Picture(encoded, *image.size, tuple(changed), image, perf_counter() - started)


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


def to_eight_bit(image: Image.Image, source: str, changed: list[str]) -> Image.Image:
    """The picture in mode RGB or L, or RGBA where it has transparent parts."""
    mode = image.mode
    if mode.startswith("I;16") or (mode == "I" and source in ("PNG", "PPM")):
        changed.append("depth_16_to_8")
        return _high_byte(image)
    if mode in ("I", "F"):
        raise Refusal("unsupported_depth", f"its pixels are of mode {mode}: no value of them is known to be white")
    if mode in ("RGBA", "RGBa", "LA", "La", "PA") or "transparency" in image.info:
        return image.convert("RGBA")
    if mode == "1":
        changed.append("bilevel_to_grey")
        return image.convert("L")
    if mode == "P":
        changed.append("palette_expanded")
    elif mode not in ("L", "RGB"):
        changed.append(f"{mode.lower()}_to_rgb")
    return image if mode in ("L", "RGB") else image.convert("RGB")


def _high_byte(image: Image.Image) -> Image.Image:
    """16-bit grey shifted by 8, as the trainer's decoder does; Pillow's own convert clips at 255."""
    import numpy as np

    values = np.asarray(image)
    return Image.fromarray((values.clip(0, 0xFFFF) >> 8).astype(np.uint8))


def flatten(image: Image.Image, background: tuple[int, int, int]) -> Image.Image:
    """Lay the picture over one colour: what lies under transparent pixels is garbage that no one saw."""
    ground = Image.new("RGBA", image.size, (*background, 255))
    return Image.alpha_composite(ground, image).convert("RGB")


def _shrink(image: Image.Image, full: tuple[int, int], short_side: int) -> Image.Image:
    """Shrink to a short side; the sides' ratio is that of the `full` size, before any shrinking while decoding."""
    scale = short_side / min(full)
    width, height = (max(short_side, round(side * scale)) for side in full)
    return image.resize((width, height), Image.Resampling.LANCZOS, reducing_gap=3.0)


def _encode(image: Image.Image, target: str, policy: Policy) -> bytes:
    buffer = io.BytesIO()
    if target == "JPEG" and max(image.size) > 65_500:
        raise Refusal("too_large", f"{image.width} x {image.height} pixels do not fit into a JPEG")
    options: dict[str, Any] = {"quality": policy.quality} if target == "JPEG" else {"compress_level": 6}
    image.info = {}  # or a profile, comment or EXIF of the source would come along
    image.save(buffer, target, **options)
    return buffer.getvalue()
