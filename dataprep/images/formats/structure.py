"""Choose the structure check of a file by its first bytes."""

from collections.abc import Callable

from dataprep.images.formats.container import ContainerCheck, check_webp_container
from dataprep.images.formats.gif import GIF_MAGICS, check_gif_container
from dataprep.images.formats.jpeg import JPEG_MAGIC, check_jpeg_container
from dataprep.images.formats.png import check_png_container
from dataprep.images.formats.simple_formats import check_bmp_container, check_ppm_container, check_qoi_container
from dataprep.images.formats.tiff.directories import check_tiff_container
from schemas.images.png_chunks import PNG_MAGIC
from schemas.images.tiff import TIFF_MAGICS

_CHECKS: tuple[tuple[tuple[bytes, ...], Callable[[bytes, bool], ContainerCheck]], ...] = (
    ((JPEG_MAGIC,), check_jpeg_container),
    ((PNG_MAGIC,), check_png_container),
    ((b"RIFF",), check_webp_container),
    (TIFF_MAGICS, check_tiff_container),
    (GIF_MAGICS, check_gif_container),
    ((b"BM",), check_bmp_container),
    ((b"P4", b"P5", b"P6"), check_ppm_container),
    ((b"qoif",), check_qoi_container),
)


def check_container(data: bytes, headers_only: bool = False) -> ContainerCheck:
    """Return the chain of the file. It is empty for a format whose structure is not checked."""
    walk = next((walk for magics, walk in _CHECKS if data.startswith(magics)), None)
    return walk(data, headers_only) if walk else ContainerCheck()
