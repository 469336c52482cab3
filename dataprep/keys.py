"""Names from strangers' disks: paths to keys and back, and keys as a terminal may show them.

A key is valid Unicode and names one path only.
"""

import os
import re

# Bytes that are not UTF-8 become %XX, from %80 up. So that the way back is clear, a percent sign in a name that
# would read as such an escape, or as the escape of itself, becomes %25. "50% off.jpg" and "a%20b.jpg" stay.
_AMBIGUOUS = re.compile("%(?=25|[89A-F][0-9A-F])")
_ESCAPE = re.compile(rb"%(25|[89A-F][0-9A-F])")
_SURROGATE = re.compile("[\udc80-\udcff]")


def path_to_key(path: str) -> str:
    """The key of a relative path as os.fsdecode gives it."""
    if path.isascii() and "%" not in path:
        return path
    if _AMBIGUOUS.search(path):
        path = _AMBIGUOUS.sub("%25", path)
    return _SURROGATE.sub(lambda found: f"%{ord(found[0]) - 0xDC00:02X}", path)


def key_to_path(key: str) -> str:
    """The relative path that has this key, with surrogates for bytes that are not UTF-8."""
    if "%" not in key:
        return key
    return os.fsdecode(_ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), key.encode()))


def printable(text: str) -> str:
    """`text` with what would move a cursor, or cannot be encoded, escaped: names come from strangers' disks."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
