"""Names from strangers' disks as keys, on a terminal and in a table: both programs escape them alike."""

import re
import unicodedata

# Bytes that are not UTF-8 become %XX, from %80 up. So that the way back is clear, a percent sign in a name that
# would read as such an escape, or as the escape of itself, becomes %25. "50% off.jpg" and "a%20b.jpg" stay.
_AMBIGUOUS = re.compile("%(?=25|[89A-F][0-9A-F])")
_SURROGATE = re.compile("[\udc80-\udcff]")


def path_to_key(path: str) -> str:
    """The key of a relative path whose bytes that are not UTF-8 are surrogates."""
    if path.isascii() and "%" not in path:
        return path
    if _AMBIGUOUS.search(path):
        path = _AMBIGUOUS.sub("%25", path)
    return escape_surrogates(path)


def escape_surrogates(text: str) -> str:
    """`text` with its bytes that are not UTF-8 as a key shows them."""
    return text if text.isascii() else _SURROGATE.sub(lambda found: f"%{ord(found[0]) - 0xDC00:02X}", text)


def printable(text: str) -> str:
    """`text` with what would move a cursor, or cannot be encoded, escaped: names come from strangers' disks."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def one_line(text: str) -> str:
    """`text` with control characters and line ends escaped as \\x1b and \\n: a cell of a table that people also print.

    Unlike `printable` it keeps spaces of other scripts, so that names can be looked up.
    """
    if text.isprintable():
        return text
    kinds = ("Cc", "Cs", "Zl", "Zp")
    return "".join(c.encode("unicode_escape").decode() if unicodedata.category(c) in kinds else c for c in text)
