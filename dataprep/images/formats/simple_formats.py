"""Check the sizes in the headers of BMP, PPM and QOI files against their bytes."""

import re
import struct

from dataprep.images.formats.container import ContainerCheck

SURPLUS = "bytes_behind_picture"
_PADDING = 3  # bytes that many writers add up to a word


# --- QOI

_QOI_END = bytes(7) + b"\1"
_QOI_RGB, _QOI_RGBA, _QOI_RUN = 0xFE, 0xFF, 0xC0
_QOI_LONG = {_QOI_RGB: 4, _QOI_RGBA: 5}


def check_qoi_container(data: bytes, headers_only: bool = False) -> ContainerCheck:
    """Check that the chunks decode to as many pixels as the header says and are followed by the end marker."""
    if headers_only or len(data) < 14:
        return ContainerCheck()
    width, height = struct.unpack_from(">II", data, 4)
    at, left = 14, width * height
    while left > 0 and at < len(data):
        head = data[at]
        if head >= _QOI_RUN and head not in _QOI_LONG:
            left -= (head & 0x3F) + 1
            at += 1
        else:
            left -= 1
            at += _QOI_LONG.get(head, 2 if head & 0xC0 == 0x80 else 1)
    if left > 0:
        return ContainerCheck(f"it ends {left} pixels too early")
    if left == 0 and len(data) - at < len(_QOI_END) and _QOI_END.startswith(data[at:]):
        return ContainerCheck(warnings=("qoi_without_end_marker",))  # all pixels are there
    if left < 0 or data[at : at + 8] != _QOI_END:
        return ContainerCheck("its end marker does not follow its last pixel", checksum=True)
    return ContainerCheck(warnings=_surplus(len(data) - at - 8))


# --- BMP

_BMP_RLE = {1: 8, 2: 4}  # compression -> bits per pixel
_BMP_UNCOMPRESSED = frozenset({0, 3, 6})


def check_bmp_container(data: bytes, headers_only: bool = False) -> ContainerCheck:
    """Check that the file has the pixels that width and height in the header require.

    Common writers give wrong file sizes and add a few bytes at the end. So additional data is a problem only if both
    the announced size of the pixels and the file have at least one row more than width and height require.
    """
    if headers_only or len(data) < 34 or int.from_bytes(data[14:18], "little") < 40:
        return ContainerCheck()  # an OS/2 header announces no size
    start, header, width, height = struct.unpack_from("<IIii", data, 10)
    bits, compression, announced = struct.unpack_from("<HII", data, 28)
    if compression in _BMP_RLE:
        return _bmp_runs(data, start, width, abs(height), compression)
    if compression not in _BMP_UNCOMPRESSED or width <= 0:
        return ContainerCheck()
    row = (width * bits + 31) // 32 * 4
    needed, available = row * abs(height), len(data) - start
    if announced >= needed + row and available >= needed + row:
        problem = f"it announces {announced} bytes of pixels, but {width} x {abs(height)} of {bits} bits need {needed}"
        return ContainerCheck(problem, checksum=True)
    has_profile = header >= _BMP_V5_HEADER
    return ContainerCheck(warnings=() if has_profile else _surplus(available - needed))


_BMP_V5_HEADER = 124  # a colour profile may follow the pixels


def _bmp_runs(data: bytes, at: int, width: int, height: int, compression: int) -> ContainerCheck:
    """Check run-length codes up to their end marker. Pillow fills in missing pixels without a warning."""
    x = y = 0
    while at + 1 < len(data):
        count, value = data[at], data[at + 1]
        at += 2
        if count:
            x += count
        elif value == 0:
            x, y = 0, y + 1
        elif value == 1:
            return ContainerCheck()
        elif value == 2:
            if at + 2 > len(data):
                break
            x, y, at = x + data[at], y + data[at + 1], at + 2
        else:
            x += value
            size = value if compression == 1 else (value + 1) // 2
            at += size + size % 2
    complete = y >= height or (y == height - 1 and x >= width)
    return ContainerCheck(None if complete else f"its run-length codes end in row {y} of {height}")


# --- PPM

_PPM_HEADER = re.compile(rb"P([456])((?:\s+|#[^\n\r]*[\n\r])+\d+)((?:\s+|#[^\n\r]*[\n\r])+\d+)")
_PPM_MAXIMUM = re.compile(rb"(?:\s+|#[^\n\r]*[\n\r])+(\d+)")


def check_ppm_container(data: bytes, headers_only: bool = False) -> ContainerCheck:
    """Check that as many bytes follow the header as width, height and depth require.

    Another picture or white space may follow. Other data as large as a row makes the header doubtful.
    """
    header = _PPM_HEADER.match(data)
    if headers_only or not header:
        return ContainerCheck()
    width, height = (int(header[i].split()[-1]) for i in (2, 3))
    at, row = header.end(), (width + 7) // 8
    if header[1] != b"4":
        maximum = _PPM_MAXIMUM.match(data, at)
        if not maximum:
            return ContainerCheck()
        at, row = maximum.end(), width * (1 if header[1] == b"5" else 3) * (2 if int(maximum[1]) > 255 else 1)
    at += 1  # one white space
    surplus = len(data) - at - row * height
    if surplus < 0:
        return ContainerCheck(f"it has {len(data) - at} bytes, but {width} x {height} pixels need {row * height}")
    rest = data[at + row * height :]
    if not rest.strip() or re.match(rb"\s*P[1-7]\s", rest):
        return ContainerCheck(warnings=("several_pictures",) if rest.strip() else ())
    if surplus >= max(row, 2):
        problem = f"{surplus} bytes follow its pixels, more than a row: its size {width} x {height} is doubtful"
        return ContainerCheck(problem, checksum=True)
    return ContainerCheck(warnings=_surplus(surplus))


def _surplus(size: int) -> tuple[str, ...]:
    return (SURPLUS,) if size > _PADDING else ()
