"""Checks and normalises one image: bytes in; bytes that the trainer's decoder reads, or a Refusal, out.

The only module that uses Pillow on data from outside. What is done to pixels is declared in Policy, applied here,
and counted by the names in Picture.changed. JPEG and PNG that already are what the policy wants pass through
untouched, after a check that they decode to their last byte.
"""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from PIL import Image, ImageCms, ImageFile, UnidentifiedImageError

from dataprep.chains import (
    JPEG_MAGIC,
    PNG_MAGIC,
    Chain,
    jpeg_chain,
    jpeg_pixels,
    png_chain,
    png_stream_problem,
    png_without_bad_extras,
    webp_chain,
)
from dataprep.reasons import of_error, of_unknown

Image.init()
# Not among them: formats without a magic number (garbage would pass), and EPS, which starts a program.
FORMATS = tuple(
    name
    for name in ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "PPM", "JPEG2000", "AVIF", "QOI")
    if name in Image.OPEN
)
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
Image.MAX_IMAGE_PIXELS = None  # Policy.max_pixels decides, from the header, before anything is decoded


def keep_decoders_single() -> None:
    """Have AVIF decoded in the calling thread: by default its decoder starts one for each core."""
    if "AVIF" in FORMATS:
        from PIL import AvifImagePlugin

        AvifImagePlugin.DEFAULT_MAX_THREADS = 1


@dataclass(frozen=True)
class Policy:
    """What is asked of an image and done to its pixels.

    `check` is decode (every image is read to its last byte) or header (no pixel is looked at that need not change,
    as other shard writers do). `resize` is the short side
    in pixels, or None; `quality` is JPEG's, 1..100. `icc` is ignore (as the trainer's decoder does) or convert (to
    sRGB), `animation` first (frame or page) or reject. `max_aspect` is the long side over the short one.

    Always: the EXIF orientation is applied, colour is 8-bit RGB or grey, 16-bit values are shifted by 8, and
    transparent pixels are laid over `background`.
    """

    check: str = "decode"
    image_format: str = "keep"
    quality: int = 95
    resize: int | None = None
    icc: str = "ignore"
    animation: str = "first"
    min_side: int = 1
    max_aspect: float | None = None
    max_pixels: int = 178_956_970
    max_bytes: int = 256 << 20
    background: tuple[int, int, int] = (255, 255, 255)


@dataclass(frozen=True, slots=True)
class Picture:
    """An image as it is written: JPEG or PNG `data`, its size in pixels, and what was changed on the way.

    `image` holds the decoded pixels where they were at hand or asked for (mode RGB or L), else None. `encode_s` is
    the seconds that encoding took.
    """

    data: bytes
    width: int
    height: int
    changed: tuple[str, ...]
    image: Image.Image | None
    encode_s: float = 0.0

    def deciding_bytes(self) -> bytes:
        """What is equal for equal pixels: the decoded ones, but for a JPEG that passed through what decides them. So a
        JPEG is known again with other metadata, but not in another format.
        """
        if not self.changed and self.data.startswith(b"\xff\xd8"):
            return jpeg_pixels(self.data)
        if self.image is None:
            return self.data
        return f"{self.image.mode} {self.image.size}".encode() + self.image.tobytes()


class Refusal(Exception):
    """The image cannot become a row: a reason code, and a detail for the person who may mend it."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def normalise(data: bytes, policy: Policy, want_pixels: bool = False, read_later: bool = False) -> Picture:
    """Check `data` and bring it to the policy; raises Refusal for anything that is not an image we can vouch for.

    `want_pixels` asks for the decoded image at full size, at the cost of a full decode. `read_later` says that whoever
    calls has each image read to its last byte afterwards, as the proof does: a JPEG that passes through is then only
    begun to be read here, which finds what is wrong with its tables. Those make MindSpore's decoder die.
    """
    if not data:
        raise Refusal("empty", "the file has no bytes")
    if len(data) > policy.max_bytes:
        raise Refusal("too_large", f"it has {len(data)} bytes, the limit is {policy.max_bytes}")
    chain = _check_chain(data, policy)
    if policy.check == "header" and not want_pixels and chain.size and _suffices(chain.size, policy):
        _check_size(*chain.size, policy)
        return Picture(data, *chain.size, (), None)
    image = _open(png_without_bad_extras(data) if chain.bad_extra else data, policy)
    stream_problem = png_stream_problem(data) if image.format == "PNG" and policy.check == "decode" else None
    if stream_problem:
        raise Refusal("corrupt", stream_problem)
    with _blaming_file(chain):
        profile = _profile(image, policy)
        if _passes(image, chain, policy) and profile is None:
            begun = chain.scan + _BEGUN_BYTES if read_later and chain.scan else len(data)
            return _pass_through(data, image, policy, want_pixels, begun)
        return _remake(image, chain, policy, profile)


@contextmanager
def _blaming_file(chain: Chain | None = None) -> Iterator[None]:
    """Within it Pillow reads bytes from outside: whatever its parsers and codecs raise condemns the file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except Refusal:
            raise
        except MemoryError:
            raise Refusal("too_large", "its pixels do not fit into memory") from None
        except Exception as error:
            if chain and chain.kind:
                raise Refusal("unsupported_format", f"it is a {chain.kind} ({error})") from None
            raise Refusal(*of_error(error)) from None


def _open(data: bytes, policy: Policy) -> Image.Image:
    with _blaming_file():
        try:
            image = Image.open(io.BytesIO(data), formats=FORMATS)
        except UnidentifiedImageError:
            raise Refusal(*of_unknown(data)) from None
    _check_size(*image.size, policy)
    if policy.animation == "reject" and _is_animated(image):
        raise Refusal("animated", "it has several frames or pages")
    return image


def _check_size(width: int, height: int, policy: Policy) -> None:
    if width < 1 or height < 1:
        raise Refusal("corrupt", f"its header says {width} x {height} pixels")
    if width * height > policy.max_pixels:
        raise Refusal("too_large", f"it has {width} x {height} pixels, the limit is {policy.max_pixels}")
    if min(width, height) < policy.min_side:
        raise Refusal("too_small", f"it has {width} x {height} pixels, the short side must have {policy.min_side}")
    if policy.max_aspect and max(width, height) > policy.max_aspect * min(width, height):
        raise Refusal("extreme_aspect", f"it has {width} x {height} pixels, the limit is {policy.max_aspect:g} to 1")


def _is_animated(image: Image.Image) -> bool:
    # A JPEG of several pictures is a photo with previews or depth: its first picture is the photo.
    with _blaming_file():
        return image.format != "MPO" and getattr(image, "n_frames", 1) > 1


def _check_chain(data: bytes, policy: Policy) -> Chain:
    """The chain of a JPEG, PNG or WebP, which must be whole; an empty one for other data."""
    walks = ((JPEG_MAGIC, jpeg_chain), (PNG_MAGIC, png_chain), (b"RIFF", webp_chain))
    walk = next((walk for magic, walk in walks if data.startswith(magic)), None)
    chain = walk(data, policy.check == "header") if walk else Chain()
    if chain.problem:
        raise Refusal("corrupt" if chain.checksum else "truncated", chain.problem)
    return chain


def _suffices(size: tuple[int, int], policy: Policy) -> bool:
    """Whether a JPEG of this size that is bare of metadata passes through on the word of its header."""
    return policy.image_format in ("keep", "jpeg") and (policy.resize is None or min(size) <= policy.resize)


def _passes(image: Image.Image, chain: Chain, policy: Policy) -> bool:
    """Whether the file already is what the policy wants. A multi-picture JPEG counts as its first picture."""
    kind = "png" if image.format == "PNG" else "jpeg"
    if not chain.plain or policy.image_format not in ("keep", kind) or image.mode not in ("RGB", "L"):
        return False
    if policy.resize is not None and min(image.size) > policy.resize:
        return False
    return _orientation(image) == 1


_BEGUN_BYTES = 4096


def _pass_through(data: bytes, image: Image.Image, policy: Policy, want_pixels: bool, begun: int) -> Picture:
    width, height = image.size
    if policy.check == "header" and not want_pixels:
        return Picture(data, width, height, (), None)
    if want_pixels or image.format == "PNG":
        image.load()
        return Picture(data, width, height, (), image)
    if begun < len(data):
        image = Image.open(io.BytesIO(data[:begun]))
    # At 1/8 scale libjpeg still reads the whole entropy-coded stream, at a fraction of the cost.
    image.draft(None, (max(1, width // 8), max(1, height // 8)))
    try:
        image.load()
    except OSError as error:
        if begun >= len(data) or "truncated" not in str(error):
            raise
    return Picture(data, width, height, (), None)


def _orientation(image: Image.Image) -> int:
    """EXIF orientation 1..8. EXIF that cannot be read counts as none: the pixels are good."""
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # whatever Pillow's parser trips over
        return 1
    return value if value in ANGLES else 1


def _profile(image: Image.Image, policy: Policy) -> Any:
    """The embedded colour profile where it is to be converted and is not sRGB; an unreadable one counts as none."""
    data = image.info.get("icc_profile")
    if policy.icc == "ignore" or not data:
        return None
    try:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(data))
        return None if "srgb" in ImageCms.getProfileDescription(profile).lower() else profile
    except Exception:  # the pixels are good, whatever littlecms trips over
        return None


def _remake(image: Image.Image, chain: Chain, policy: Policy, profile: Any) -> Picture:
    changed: list[str] = []
    source = str(image.format)
    if _is_animated(image):
        changed.append("first_frame")
    full = image.size
    if policy.resize is not None and source in ("JPEG", "MPO"):
        image.draft(None, (policy.resize, policy.resize))  # libjpeg shrinks by 2, 4 or 8 while it decodes
    image.load()
    angle = _orientation(image)  # after loading: Pillow turns a TIFF by itself, and then drops the tag
    if profile is not None:
        image = _to_srgb(image, profile, changed)
    if chain.deep and image.mode == "RGB":
        changed.append("depth_16_to_8")  # Pillow has shifted the values by 8 while loading
    image = _to_eight_bit(image, source, changed)
    if angle != 1:
        image = image.transpose(ANGLES[angle])
        full = full[::-1] if angle >= 5 else full
        changed.append("exif_rotated")
    if policy.resize is not None and min(full) > policy.resize:
        image = _shrink(image, full, policy.resize)
        changed.append("resized")
    if image.mode == "RGBA":
        image = _flatten(image, policy.background)
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
        return image
    if done is None or image.mode not in ("RGB", "CMYK"):
        return image
    changed.append("icc_converted")
    return done


def _target(source: str, policy: Policy) -> str:
    if policy.image_format == "keep":
        return "JPEG" if source in ("JPEG", "MPO") else "PNG"
    return policy.image_format.upper()


def _to_eight_bit(image: Image.Image, source: str, changed: list[str]) -> Image.Image:
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


def _flatten(image: Image.Image, background: tuple[int, int, int]) -> Image.Image:
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


def image_size(data: bytes) -> tuple[int, int]:
    """Width and height that the header says, in pixels; (0, 0) where there is no readable header."""
    try:
        return _open(data, Policy(max_pixels=1 << 40)).size
    except Refusal:
        return 0, 0


def glimpse(data: bytes, side: int, max_pixels: int) -> Image.Image:
    """What there is to be seen of a file, also of one that normalise refuses: RGB or grey, no side longer than `side`.
    Of a cut file that is what comes before the cut. Raises Refusal where nothing is to be seen.

    Not for two threads at once: it asks Pillow, for the whole process, to put up with cut files.
    """
    image = _open(data, Policy(max_pixels=max_pixels))
    with _blaming_file():
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        try:
            image.draft(None, (side, side))
            image.load()
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = False
        angle = _orientation(image)
        image = _to_eight_bit(image, str(image.format), [])
        image.thumbnail((side, side), reducing_gap=3.0)
        image = _flatten(image, Policy.background) if image.mode == "RGBA" else image
        return image.transpose(ANGLES[angle]) if angle != 1 else image
