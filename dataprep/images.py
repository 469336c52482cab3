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
from typing import Any

from PIL import Image, UnidentifiedImageError

from dataprep.chains import Chain, jpeg_chain, png_chain
from dataprep.magic import describe_other

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


@dataclass(frozen=True)
class Policy:
    """What is done to pixels. `resize` is the short side in pixels, or None; `quality` is JPEG's, 1..100.

    Always: the EXIF orientation is applied, colour is 8-bit RGB or grey, 16-bit values are shifted by 8, transparent
    pixels are laid over `background`, embedded colour profiles are ignored (as the trainer's decoder does), and
    of an animation the first frame is taken.
    """

    image_format: str = "keep"
    quality: int = 95
    resize: int | None = None
    max_pixels: int = 178_956_970
    max_file_bytes: int = 256 << 20
    background: tuple[int, int, int] = (255, 255, 255)


@dataclass(frozen=True, slots=True)
class Picture:
    """An image as it is written: JPEG or PNG `data`, its size in pixels, and what was changed on the way.

    `image` holds the decoded pixels where they were at hand or asked for (mode RGB or L), else None.
    """

    data: bytes
    width: int
    height: int
    changed: tuple[str, ...]
    image: Image.Image | None


class Refusal(Exception):
    """The image cannot become a row: a reason code, and a detail for the person who may mend it."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def normalise(data: bytes, policy: Policy, want_pixels: bool = False) -> Picture:
    """Check `data` and bring it to the policy; raises Refusal for anything that is not an image we can vouch for.

    `want_pixels` asks for the decoded image at full size, at the cost of a full decode.
    """
    if not data:
        raise Refusal("empty", "the file has no bytes")
    image = _open(data, policy)
    chain = _check_chain(data, image)
    if _passes(image, chain, policy):
        return _pass_through(data, image, want_pixels)
    return _remake(image, policy)


@contextmanager
def _blaming_file() -> Iterator[None]:
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
            raise Refusal(*_pillow_reason(error)) from None


def _open(data: bytes, policy: Policy) -> Image.Image:
    if len(data) > policy.max_file_bytes:
        raise Refusal("too_large", f"it has {len(data)} bytes, the limit is {policy.max_file_bytes}")
    with _blaming_file():
        try:
            image = Image.open(io.BytesIO(data), formats=FORMATS)
        except UnidentifiedImageError:
            raise Refusal(*_unknown_reason(data)) from None
    width, height = image.size
    if width * height > policy.max_pixels:
        raise Refusal("too_large", f"it has {width} x {height} pixels, the limit is {policy.max_pixels}")
    if width < 1 or height < 1:
        raise Refusal("corrupt", f"its header says {width} x {height} pixels")
    return image


def _unknown_reason(data: bytes) -> tuple[str, str]:
    if data.startswith((b"\xff\xd8\xff", b"\x89PNG")):
        return "truncated", "it ends or breaks inside its header"
    reason, name = describe_other(data[:1024])
    return reason, f"its content is {name}"


def _pillow_reason(error: Exception) -> tuple[str, str]:
    text = f"{error}" or type(error).__name__
    cut = isinstance(error, EOFError) or any(
        word in text.lower() for word in ("truncated", "not enough data", "end of")
    )
    return ("truncated" if cut else "corrupt"), text[:200]


def _check_chain(data: bytes, image: Image.Image) -> Chain:
    if image.format in ("JPEG", "MPO"):
        chain = jpeg_chain(data)
    elif image.format == "PNG":
        chain = png_chain(data)
    else:
        return Chain(None)
    if chain.problem:
        raise Refusal("corrupt" if "checksum" in chain.problem else "truncated", chain.problem)
    return chain


def _passes(image: Image.Image, chain: Chain, policy: Policy) -> bool:
    """Whether the file already is what the policy wants. A multi-picture JPEG counts as its first picture."""
    kind = "png" if image.format == "PNG" else "jpeg"
    if not chain.plain or policy.image_format not in ("keep", kind) or image.mode not in ("RGB", "L"):
        return False
    if policy.resize is not None and min(image.size) > policy.resize:
        return False
    return _orientation(image) == 1


def _pass_through(data: bytes, image: Image.Image, want_pixels: bool) -> Picture:
    width, height = image.size
    if not want_pixels and image.format != "PNG":
        # At 1/8 scale libjpeg still reads the whole entropy-coded stream, at a fraction of the cost.
        image.draft(None, (max(1, width // 8), max(1, height // 8)))
    with _blaming_file():
        image.load()
    return Picture(data, width, height, (), image if want_pixels else None)


def _orientation(image: Image.Image) -> int:
    """EXIF orientation 1..8. EXIF that cannot be read counts as none: the pixels are good."""
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # whatever Pillow's parser trips over
        return 1
    return value if value in ANGLES else 1


def _remake(image: Image.Image, policy: Policy) -> Picture:
    changed: list[str] = []
    source = str(image.format)
    with _blaming_file():
        if source != "MPO" and getattr(image, "n_frames", 1) > 1:
            changed.append("first_frame")
        if policy.resize is not None and source in ("JPEG", "MPO"):
            image.draft(None, (policy.resize, policy.resize))
        image.load()
        angle = _orientation(image)  # after loading: Pillow turns a TIFF by itself, and then drops the tag
        image = _to_eight_bit(image, source, changed)
    if angle != 1:
        image = image.transpose(ANGLES[angle])
        changed.append("exif_rotated")
    if policy.resize is not None and min(image.size) > policy.resize:
        image = _shrink(image, policy.resize)
        changed.append("resized")
    if image.mode == "RGBA":
        image = _flatten(image, policy.background)
        changed.append("alpha_flattened")
    target = _target(source, policy)
    if target != ("JPEG" if source == "MPO" else source):
        changed.append(f"{source.lower()}_to_{target.lower()}")
    return Picture(_encode(image, target, policy), *image.size, tuple(changed), image)


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


def _shrink(image: Image.Image, short_side: int) -> Image.Image:
    scale = short_side / min(image.size)
    width, height = (max(short_side, round(side * scale)) for side in image.size)
    return image.resize((width, height), Image.Resampling.LANCZOS, reducing_gap=3.0)


def _encode(image: Image.Image, target: str, policy: Policy) -> bytes:
    buffer = io.BytesIO()
    if target == "JPEG" and max(image.size) > 65_500:
        raise Refusal("too_large", f"{image.width} x {image.height} pixels do not fit into a JPEG")
    options: dict[str, Any] = {"quality": policy.quality} if target == "JPEG" else {"compress_level": 6}
    image.info = {}  # or a profile, comment or EXIF of the source would come along
    image.save(buffer, target, **options)
    return buffer.getvalue()


def channel_moments(image: Image.Image) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Mean of value and of squared value per RGB channel, on 0..255; exact sums, so the same on every machine."""
    counts = image.convert("RGB").histogram()
    pixels = image.width * image.height
    means, squares = [], []
    for channel in range(3):
        part = counts[256 * channel : 256 * (channel + 1)]
        means.append(sum(value * n for value, n in enumerate(part)) / pixels)
        squares.append(sum(value * value * n for value, n in enumerate(part)) / pixels)
    return (means[0], means[1], means[2]), (squares[0], squares[1], squares[2])
