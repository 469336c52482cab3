"""Check the blocks of a GIF and count the pixels of its first picture."""

from collections.abc import Iterator

from dataprep.images.formats.container import ContainerCheck
from dataprep.images.formats.lzw import count_lzw

GIF_MAGICS = (b"GIF87a", b"GIF89a")
_EXTENSION, _PICTURE, _TRAILER = 0x21, 0x2C, 0x3B
_LARGEST_CODE_BITS = 8


def check_gif_container(data: bytes, headers_only: bool = False) -> ContainerCheck:
    """Check that the compressed data of the first picture decodes to as many pixels as its size requires.

    A missing trailer is a warning: pictures are complete without it, and some writers omit it.
    """
    first: str | None = None
    pictures = 0
    for kind, at, end in _blocks(data):
        if kind == _TRAILER:
            return ContainerCheck(first, checksum=True)
        if kind == _PICTURE and not pictures and not headers_only:
            first = _picture_problem(data, at, end)
        pictures += kind == _PICTURE
    return ContainerCheck(first, warnings=("gif_without_trailer",) if pictures else ())


def _blocks(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield kind, start and end of each block up to the trailer or the end of the data."""
    at = 13 + _colours(data[10:11])
    while at < len(data):
        kind = data[at]
        if kind == _TRAILER:
            yield kind, at, at + 1
            return
        if kind == _EXTENSION:
            end = _skip(data, at + 2)
        elif kind == _PICTURE:
            end = _skip(data, at + 11 + _colours(data[at + 9 : at + 10]))
        else:
            at += 1  # decoders look for the next block they know
            continue
        yield kind, at, end
        at = end


def _colours(flags: bytes) -> int:
    """Return the size in bytes of the colour table that these flags announce."""
    return 3 << ((flags[0] & 7) + 1) if flags and flags[0] & 0x80 else 0


def _skip(data: bytes, at: int) -> int:
    """Return the end of the chain of data blocks that starts at this offset."""
    while at < len(data) and data[at]:
        at += data[at] + 1
    return at + 1


def _picture_problem(data: bytes, at: int, end: int) -> str | None:
    width, height = (int.from_bytes(data[at + i : at + i + 2], "little") for i in (5, 7))
    at += 10 + _colours(data[at + 9 : at + 10])
    code_bits, at = data[at] if at < len(data) else 0, at + 1
    if not 1 <= code_bits <= _LARGEST_CODE_BITS:
        return None  # Pillow decides
    pieces = []
    while at < min(end, len(data)) and data[at]:
        pieces.append(data[at + 1 : at + 1 + data[at]])
        at += data[at] + 1
    count = count_lzw(b"".join(pieces), code_bits, most_significant_first=False)
    if count is None or count.values == width * height:
        return None
    return f"its compressed data decodes to only {count.values} of {width * height} pixels"
