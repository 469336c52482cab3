"""Decodes the fax and JPEG strips of a TIFF with the libtiff that Pillow has loaded, to hear its warnings.

Pillow silences them for the whole process, and they are all that tells of lost fax lines and of damage that libjpeg has
filled up. libtiff lets each opened file have handlers of its own, so nothing else in the process changes.
"""

import ctypes
import functools
import os
import re
from pathlib import Path
from typing import Any

_LARGEST_STRIP = 1 << 30  # bytes
_LINE = 500
_MAX_COMPLAINTS = 100
_WARNED = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p
)
_HANDLED = 1
# name -> (what it returns, what it takes)
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
    """(number of the strip or tile, "module: text") for what libtiff says of the first picture, errors and warnings, up
    to about a hundred. Empty where the codecs of Pillow were built in a way that hides libtiff or it is older than 4.5.
    """
    library = loaded_libtiff()
    if library is None:
        return []
    file = os.memfd_create("picture", os.MFD_CLOEXEC)
    with os.fdopen(file, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.lseek(file, 0, os.SEEK_SET)
        return _listen(library, os.dup(file))


def _listen(library: ctypes.CDLL, file: int) -> list[tuple[int, str]]:
    """Read all strips of the open `file`, which is closed."""
    said: list[tuple[int, str]] = []
    strip = -1  # before the first strip libtiff speaks of tags, which Pillow reads by itself

    def hear(_tiff: int, _user: int, module: bytes | None, text: bytes, values: int) -> int:
        if strip >= 0 and len(said) < _MAX_COMPLAINTS:
            said.append((strip, f"{(module or b'libtiff').decode('utf-8', 'replace')}: {_formatted(text, values)}"))
        return _HANDLED

    handler = _WARNED(hear)  # held here for as long as the file is open
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
        if 0 < size <= _LARGEST_STRIP:
            buffer = ctypes.create_string_buffer(size)
            for strip in range(getattr(library, f"TIFFNumberOf{kind}s")(tiff)):
                read(tiff, strip, buffer, size)
                if len(said) >= _MAX_COMPLAINTS:
                    break
    finally:
        library.TIFFClose(tiff)
    return said


def _formatted(text: bytes, values: int) -> str:
    line = ctypes.create_string_buffer(_LINE)
    ctypes.CDLL(None).vsnprintf(line, _LINE, text, ctypes.c_void_p(values))
    return line.value.decode("utf-8", "replace")


@functools.cache
def loaded_libtiff() -> ctypes.CDLL | None:
    """The libtiff of this process, which Pillow's module of codecs was linked to."""
    from PIL import _imaging  # noqa: F401  so that it is loaded

    try:
        found = re.search(r"/.*/libtiff[^/\n]*\.so[^/\n]*$", Path("/proc/self/maps").read_text(), re.MULTILINE)
        library = ctypes.CDLL(found[0]) if found else None
        for name, (returned, taken) in _FUNCTIONS.items() if library else ():
            function = getattr(library, name)
            function.restype, function.argtypes = returned, taken
    except (OSError, AttributeError):
        return None
    return library
