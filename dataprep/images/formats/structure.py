"""Choose the structure check of a file by its first bytes."""

from collections.abc import Callable

from dataprep.images.formats.chain import Chain, webp_chain
from dataprep.images.formats.gif import GIF_MAGICS, gif_chain
from dataprep.images.formats.jpeg import JPEG_MAGIC, jpeg_chain
from dataprep.images.formats.png import png_chain
from dataprep.images.formats.simple_formats import bmp_chain, ppm_chain, qoi_chain
from dataprep.images.formats.tiff.directories import tiff_chain
from schemas.images.png_chunks import PNG_MAGIC
from schemas.images.tiff import TIFF_MAGICS

_CHAINS: tuple[tuple[tuple[bytes, ...], Callable[[bytes, bool], Chain]], ...] = (
    ((JPEG_MAGIC,), jpeg_chain),
    ((PNG_MAGIC,), png_chain),
    ((b"RIFF",), webp_chain),
    (TIFF_MAGICS, tiff_chain),
    (GIF_MAGICS, gif_chain),
    ((b"BM",), bmp_chain),
    ((b"P4", b"P5", b"P6"), ppm_chain),
    ((b"qoif",), qoi_chain),
)


def walk_chain(data: bytes, headers_only: bool = False) -> Chain:
    """Return the chain of the file. It is empty for a format whose structure is not checked."""
    walk = next((walk for magics, walk in _CHAINS if data.startswith(magics)), None)
    return walk(data, headers_only) if walk else Chain()
