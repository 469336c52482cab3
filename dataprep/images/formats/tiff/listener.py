"""Decode the fax and JPEG strips of a TIFF with the libtiff that Pillow has loaded, to read its warnings.

Pillow silences the warnings for the whole process, but only they report lost fax lines and damage that libjpeg fills
in. libtiff allows handlers per opened file, so nothing else in the process is affected.
"""

import ctypes
import functools
import os
import re
from pathlib import Path
from typing import Any

_MAX_STRIP_BYTES = 1 << 30
_LINE = 500
_MAX_COMPLAINTS = 100
_WARNED = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p
)
_HANDLED = 1
# name -> (result type, argument types)
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "TIFFOpenOptionsAlloc": (ctypes.c_void_p, ()),
    "TIFFOpenOptionsFree": (None, (ctypes.c_void_p,)),
    "TIFFOpenOptionsSetWarningHandlerExtR": (None, (ctypes.c_void_p, _WARNED, ctypes.c_void_p)),
    "TIFFOpenOptionsSetErrorHandlerExtR": (None, (ctypes.c_void_p, _WARNED, ctypes.c_void_p)),
    "TIFFFdOpenExt": (ctypes.c_void_p, (ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)),
    "TIFFClose": (None, (ctypes.c_void_p,)),
    "TIFFIsTiled": (ctypes.c_int, (ctypes.c_void_p,)),
    "TIFFNumberOfStrips": (ctypes.c_uint32, (ctypes.c_void_p,)),
    "TIFFNumberOfTiles": (ctypes.c_uint32, (ctypes.c_void_p,)),
    "TIFFStripSize": (ctypes.c_ssize_t, (ctypes.c_void_p,)),
    "TIFFTileSize": (ctypes.c_ssize_t, (ctypes.c_void_p,)),
    "TIFFReadEncodedStrip": (ctypes.c_ssize_t, (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_ssize_t)),
    "TIFFReadEncodedTile": (ctypes.c_ssize_t, (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_ssize_t)),
}


def strip_complaints(data: bytes) -> list[tuple[int, str]]:
    """Return (number of the strip or tile, "module: text") of libtiff's errors and warnings about the first picture.

    At most about a hundred; empty if libtiff is older than 4.5 or not accessible in this build of Pillow.
    """
    library = load_libtiff()
    if library is None:
        return []
    file = os.memfd_create("picture", os.MFD_CLOEXEC)
    with os.fdopen(file, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.lseek(file, 0, os.SEEK_SET)
        return _listen(library, os.dup(file))


def _listen(library: ctypes.CDLL, file: int) -> list[tuple[int, str]]:
    """Read all strips of the open `file`, and close it."""
    complaints: list[tuple[int, str]] = []
    strip = -1  # before the first strip messages are about tags, which Pillow reads itself

    def hear(_tiff: int, _user: int, module: bytes | None, text: bytes, values: int) -> int:
        if strip >= 0 and len(complaints) < _MAX_COMPLAINTS:
            name = (module or b"libtiff").decode("utf-8", "replace")
            complaints.append((strip, f"{name}: {_formatted(text, values)}"))
        return _HANDLED

    handler = _WARNED(hear)  # referenced while the file is open
    options = library.TIFFOpenOptionsAlloc()
    library.TIFFOpenOptionsSetWarningHandlerExtR(options, handler, None)
    library.TIFFOpenOptionsSetErrorHandlerExtR(options, handler, None)
    tiff = library.TIFFFdOpenExt(file, b"picture", b"r", options)
    library.TIFFOpenOptionsFree(options)
    if not tiff:
        os.close(file)
        return []
    try:
        kind = "Tile" if library.TIFFIsTiled(tiff) else "Strip"
        size = getattr(library, f"TIFF{kind}Size")(tiff)
        read = getattr(library, f"TIFFReadEncoded{kind}")
        if 0 < size <= _MAX_STRIP_BYTES:
            buffer = ctypes.create_string_buffer(size)
            for strip in range(getattr(library, f"TIFFNumberOf{kind}s")(tiff)):
                read(tiff, strip, buffer, size)
                if len(complaints) >= _MAX_COMPLAINTS:
                    break
    finally:
        library.TIFFClose(tiff)
    return complaints


def _formatted(text: bytes, values: int) -> str:
    line = ctypes.create_string_buffer(_LINE)
    ctypes.CDLL(None).vsnprintf(line, _LINE, text, ctypes.c_void_p(values))
    return line.value.decode("utf-8", "replace")


@functools.cache
def load_libtiff() -> ctypes.CDLL | None:
    """Return the libtiff to which Pillow's codecs are linked; None if it is not accessible."""
    from PIL import _imaging  # noqa: F401  to load it

    try:
        path = re.search(r"/.*/libtiff[^/\n]*\.so[^/\n]*$", Path("/proc/self/maps").read_text(), re.MULTILINE)
        library = ctypes.CDLL(path[0]) if path else None
        for name, (result, arguments) in _FUNCTIONS.items() if library else ():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError):
        return None
    return library
