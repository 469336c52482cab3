"""Names from strangers' disks: paths to keys and back, and keys as a terminal may show them.

A name on disk is bytes. It is read as UTF-8 in every locale, with a surrogate for each byte that is not, so keys, class
order and identity are the same on all machines. Python's own `str` paths depend on the locale: they are used for OUT
only. A key is valid Unicode and names one path only.
"""

import os
import re

from schemas.names import escape_surrogates, path_to_key, printable

__all__ = ["escape_surrogates", "path_to_key", "printable"]

_ESCAPE = re.compile(rb"%(25|[89A-F][0-9A-F])")


def decode_name(name: bytes) -> str:
    """A name or path on disk as text: UTF-8, with surrogates for other bytes."""
    return name.decode("utf-8", "surrogateescape")


def encode_name(name: str) -> bytes:
    """The bytes on disk of a name or path that decode_name gave."""
    return name.encode("utf-8", "surrogateescape")


def portable_path(path: str | os.PathLike[str]) -> str:
    """A path of this process, which Python decoded by the locale, as decode_name gives it in every locale."""
    return decode_name(os.fsencode(path))


def source_path(source: str, key: str) -> bytes:
    """Where the file of `key` is on disk; `source` is SOURCE as portable_path gives it."""
    return os.path.join(encode_name(source), encode_name(key_to_path(key)))


def key_to_path(key: str) -> str:
    """The relative path that has this key, with surrogates for bytes that are not UTF-8."""
    if "%" not in key:
        return key
    return decode_name(_ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), key.encode()))
