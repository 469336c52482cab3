"""Checks and normalises one image: bytes in; bytes that the trainer's decoder reads, or a Refusal, out.

The only module that uses Pillow on data from outside. What is done to pixels is declared in Policy, applied here,
and counted by the names in Picture.changed. JPEG and PNG that already are what the policy wants pass through
untouched, after a check that they decode to their last byte.
"""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from PIL import Image, ImageFile, UnidentifiedImageError

from dataprep.images.encoding import reencode
from dataprep.images.formats.chain import Chain
from dataprep.images.formats.jpeg import jpeg_end, jpeg_without
from dataprep.images.formats.png import EXTRA_DATA, png_stream_problem, png_without
from dataprep.images.formats.structure import walk_chain
from dataprep.images.formats.tiff.messages import CodecMessages
from dataprep.images.picture import Picture
from dataprep.images.reasons import of_error, of_unknown
from schemas.images.pixels import (
    check_size,
    flatten,
    open_image,
    orientation,
    profile_to_convert,
    readable_formats,
    to_eight_bit,
    turn_upright,
)
from schemas.images.png_chunks import PNG_MAGIC, without_bad_extras
from schemas.images.policy import Notes, Policy, Refusal


def keep_decoders_single() -> None:
    """Have AVIF decoded in the calling thread: by default its decoder starts one for each core."""
    if "AVIF" in readable_formats():
        from PIL import AvifImagePlugin

        AvifImagePlugin.DEFAULT_MAX_THREADS = 1


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
        check_size(*chain.size, policy)
        return _passed(data, chain, policy, chain.size, None)
    image = _open(without_bad_extras(data) if chain.bad_extra else data, policy)
    warned = _png_warnings(data) if image.format == "PNG" and policy.check == "decode" else ()
    listened = data if policy.check == "decode" else b""
    with CodecMessages(image.format, listened) as messages, _blaming_file(chain):
        if not warned and _passes(image, chain, policy) and profile_to_convert(image, policy) is None:
            begun = chain.scan + _BEGUN_BYTES if read_later and chain.scan else len(data)
            size = image.size  # before reading: at a smaller scale it is another
            pixels = _read_through(data, image, policy, want_pixels, begun)
            return _passed(data, chain, policy, size, pixels)
        picture = reencode(image, chain, policy, messages)
        return replace(picture, warnings=(*warned, *picture.warnings))


def _png_warnings(data: bytes) -> tuple[str, ...]:
    """What is odd about the compressed pixels of a PNG; raises Refusal for what is wrong with them."""
    problem = png_stream_problem(data)
    if problem and problem != EXTRA_DATA:
        raise Refusal(*problem)
    return EXTRA_DATA[:1] if problem else ()


def _passed(data: bytes, chain: Chain, policy: Policy, size: tuple[int, int], pixels: Image.Image | None) -> Picture:
    """The picture of a file whose pixels stay as they are, without what is no part of it."""
    if data.startswith(PNG_MAGIC):
        stored, left_out = png_without(data, chain, policy.strip_metadata)
    else:
        stored, left_out = jpeg_without(data, chain.end or jpeg_end(data), policy.strip_metadata)
    return Picture(stored, *size, left_out, pixels)


@contextmanager
def _blaming_file(chain: Chain | None = None) -> Iterator[None]:
    """Within it Pillow reads bytes from outside: whatever its parsers and codecs raise condemns the file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except Refusal:
            raise
        except MemoryError as error:
            # decoding.decode finds out whether the file is to blame.
            raise Refusal("corrupt", f"out of memory ({error})" if str(error) else "out of memory") from None
        except Exception as error:
            if chain and chain.kind:
                raise Refusal("unsupported_format", f"it is a {chain.kind} ({error})") from None
            raise Refusal(*of_error(error)) from None


def _open(data: bytes, policy: Policy) -> ImageFile.ImageFile:
    with _blaming_file():
        try:
            return open_image(data, policy)
        except UnidentifiedImageError:
            raise Refusal(*of_unknown(data)) from None


def _check_chain(data: bytes, policy: Policy) -> Chain:
    """The chain of the file, which must be whole; an empty one for data of unknown structure."""
    chain = walk_chain(data, policy.check == "header")
    if chain.problem:
        raise Refusal(chain.reason, chain.problem)
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
    return orientation(image) == 1


_BEGUN_BYTES = 4096


def _read_through(data: bytes, image: Image.Image, policy: Policy, want_pixels: bool, begun: int) -> Image.Image | None:
    """Read an opened file as far as the policy asks, and return it if that decodes it; Pillow's errors come through."""
    if policy.check == "header" and not want_pixels:
        return None
    if want_pixels or image.format == "PNG":
        image.load()
        return image
    width, height = image.size
    if begun < len(data):
        image = Image.open(io.BytesIO(data[:begun]))
    # At 1/8 scale libjpeg still reads the whole entropy-coded stream, at a fraction of the cost.
    image.draft(None, (max(1, width // 8), max(1, height // 8)))
    try:
        image.load()
    except OSError as error:
        if begun >= len(data) or "truncated" not in str(error):
            raise
    return None


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
    data = without_bad_extras(data) if data.startswith(PNG_MAGIC) else data
    image: Image.Image = _open(data, Policy(max_pixels=max_pixels))
    with _blaming_file():
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        try:
            image.draft(None, (side, side))
            image.load()
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = False
        angle = orientation(image)
        image = to_eight_bit(image, str(image.format), Policy(), Notes())
        image.thumbnail((side, side), reducing_gap=3.0)
        image = flatten(image, Policy.background) if image.mode == "RGBA" else image
        return turn_upright(image, angle)
