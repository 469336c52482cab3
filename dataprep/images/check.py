"""Check and normalise one image: file bytes in; bytes that the trainer's decoder reads, or a ImageRejected, out.

JPEG and PNG files that already fit the policy pass through unchanged, after a check that they decode to the last byte.
Others are re-encoded, and their changes are counted by the names in Picture.changed.
"""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from PIL import Image, ImageFile, UnidentifiedImageError

from dataprep.images.encoding import reencode
from dataprep.images.formats.container import ContainerCheck
from dataprep.images.formats.jpeg import jpeg_end, jpeg_without
from dataprep.images.formats.png import EXTRA_DATA, png_stream_problem, png_without
from dataprep.images.formats.structure import check_container
from dataprep.images.formats.tiff.messages import CodecMessages
from dataprep.images.picture import Picture
from dataprep.images.reasons import reason_of_error, reason_of_unknown
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
from schemas.images.policy import ImageRejected, Notes, Policy


def keep_decoders_single() -> None:
    """Make AVIF decode in the calling thread. By default its decoder starts one thread per core."""
    if "AVIF" in readable_formats():
        from PIL import AvifImagePlugin

        AvifImagePlugin.DEFAULT_MAX_THREADS = 1


def normalise(data: bytes, policy: Policy, want_pixels: bool = False, read_later: bool = False) -> Picture:
    """Check an image file and apply the policy to it. Raises ImageRejected if the image is rejected.

    `want_pixels` requests the decoded image at full size, which needs a full decode. `read_later` is for a caller that
    decodes each image completely afterwards, as the decode check does. Of a JPEG that passes through, only the
    beginning is then read. This finds errors in its tables, which crash MindSpore's decoder.
    """
    if not data:
        raise ImageRejected("empty", "the file is empty")
    if len(data) > policy.max_bytes:
        raise ImageRejected("too_large", f"it has {len(data)} bytes; the limit is {policy.max_bytes}")
    container = _check_container(data, policy)
    if policy.check == "header" and not want_pixels and container.size and _suffices(container.size, policy):
        check_size(*container.size, policy)
        return _passed(data, container, policy, container.size, None)
    image = _open(without_bad_extras(data) if container.bad_extra else data, policy)
    png_warnings = _png_warnings(data) if image.format == "PNG" and policy.check == "decode" else ()
    decoded = data if policy.check == "decode" else b""
    with CodecMessages(image.format, decoded) as messages, _errors_as_rejects(container):
        if not png_warnings and _passes(image, container, policy) and profile_to_convert(image, policy) is None:
            end = container.scan + _START_BYTES if read_later and container.scan else len(data)
            size = image.size  # before reading, which may reduce the scale
            pixels = _read_through(data, image, policy, want_pixels, end)
            return _passed(data, container, policy, size, pixels)
        picture = reencode(image, container, policy, messages)
        return replace(picture, warnings=(*png_warnings, *picture.warnings))


def _png_warnings(data: bytes) -> tuple[str, ...]:
    """Return warnings about the compressed pixels of a PNG. Raises ImageRejected if the pixels are damaged."""
    problem = png_stream_problem(data)
    if problem and problem != EXTRA_DATA:
        raise ImageRejected(*problem)
    return EXTRA_DATA[:1] if problem else ()


def _passed(
    data: bytes, container: ContainerCheck, policy: Policy, size: tuple[int, int], pixels: Image.Image | None
) -> Picture:
    """Return the picture of a file that passes through, without data after its end."""
    if data.startswith(PNG_MAGIC):
        stored, changes = png_without(data, container, policy.strip_metadata)
    else:
        stored, changes = jpeg_without(data, container.end or jpeg_end(data), policy.strip_metadata)
    return Picture(stored, *size, changes, pixels)


@contextmanager
def _errors_as_rejects(container: ContainerCheck | None = None) -> Iterator[None]:
    """Convert all errors of Pillow's parsers and codecs to ImageRejected."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except ImageRejected:
            raise
        except MemoryError as error:
            # decoding.decode checks whether the file or the machine is the cause.
            raise ImageRejected("corrupt", f"out of memory ({error})" if str(error) else "out of memory") from None
        except Exception as error:
            if container and container.kind:
                raise ImageRejected("unsupported_format", f"it is a {container.kind} ({error})") from None
            raise ImageRejected(*reason_of_error(error)) from None


def _open(data: bytes, policy: Policy) -> ImageFile.ImageFile:
    with _errors_as_rejects():
        try:
            return open_image(data, policy)
        except UnidentifiedImageError:
            raise ImageRejected(*reason_of_unknown(data)) from None


def _check_container(data: bytes, policy: Policy) -> ContainerCheck:
    """Check the structure of a file. The result is empty for an unknown format.

    Raises ImageRejected if it is broken.
    """
    container = check_container(data, policy.check == "header")
    if container.problem:
        raise ImageRejected(container.reason, container.problem)
    return container


def _suffices(size: tuple[int, int], policy: Policy) -> bool:
    """Return True if the header alone shows that a JPEG of this size, without metadata, passes through."""
    return policy.image_format in ("keep", "jpeg") and (policy.resize is None or min(size) <= policy.resize)


def _passes(image: Image.Image, container: ContainerCheck, policy: Policy) -> bool:
    """Return True if the file already fits the policy. A multi-picture JPEG counts as its first picture."""
    kind = "png" if image.format == "PNG" else "jpeg"
    if not container.plain or policy.image_format not in ("keep", kind) or image.mode not in ("RGB", "L"):
        return False
    if policy.resize is not None and min(image.size) > policy.resize:
        return False
    return orientation(image) == 1


_START_BYTES = 4096


def _read_through(data: bytes, image: Image.Image, policy: Policy, want_pixels: bool, end: int) -> Image.Image | None:
    """Read an opened file as far as the policy requires. Return the image if it is decoded.

    Raises Pillow's errors.
    """
    if policy.check == "header" and not want_pixels:
        return None
    if want_pixels or image.format == "PNG":
        image.load()
        return image
    width, height = image.size
    if end < len(data):
        image = Image.open(io.BytesIO(data[:end]))
    # At 1/8 scale libjpeg still reads the whole entropy-coded stream, at a fraction of the cost.
    image.draft(None, (max(1, width // 8), max(1, height // 8)))
    try:
        image.load()
    except OSError as error:
        if end >= len(data) or "truncated" not in str(error):
            raise
    return None


def image_size(data: bytes) -> tuple[int, int]:
    """Return width and height in pixels from the header; (0, 0) if the header is unreadable."""
    try:
        return _open(data, Policy(max_pixels=1 << 40)).size
    except ImageRejected:
        return 0, 0


def preview_image(data: bytes, side: int, max_pixels: int) -> Image.Image:
    """Return the visible part of a file, also of a file that normalise rejects.

    The result is RGB or grey, and no side is longer than `side`. For a truncated file it is the part before the end.
    Raises ImageRejected if nothing is visible. Not thread-safe: Pillow accepts truncated files in the whole process
    meanwhile.
    """
    data = without_bad_extras(data) if data.startswith(PNG_MAGIC) else data
    image: Image.Image = _open(data, Policy(max_pixels=max_pixels))
    with _errors_as_rejects():
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
