"""Escape file names for keys, terminals and tables."""

import re
import unicodedata

# Bytes that are not UTF-8 become %80 to %FF. To keep this reversible, a percent sign becomes %25 where it would be read
# as an escape from %80 to %FF or as %25. "50% off.jpg" and "a%20b.jpg" are unchanged.
_AMBIGUOUS = re.compile("%(?=25|[89A-F][0-9A-F])")
_SURROGATE = re.compile("[\udc80-\udcff]")


def path_to_key(path: str) -> str:
    """Return the key of a relative path, in which bytes that are not UTF-8 are surrogates."""
    if path.isascii() and "%" not in path:
        return path
    if _AMBIGUOUS.search(path):
        path = _AMBIGUOUS.sub("%25", path)
    return escape_surrogates(path)


def escape_surrogates(text: str) -> str:
    """Return `text` with surrogates escaped as in a key."""
    return text if text.isascii() else _SURROGATE.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", text)


def printable(text: str) -> str:
    """Return `text` with escapes for characters that would move a cursor or cannot be encoded."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def one_line(text: str) -> str:
    """Return `text` with control characters and line ends escaped as \\x1b and \\n, for a table cell.

    Unlike `printable`, this keeps the space characters of all scripts, so that a name can be searched for.
    """
    if text.isprintable():
        return text
    kinds = ("Cc", "Cs", "Zl", "Zp")
    return "".join(c.encode("unicode_escape").decode() if unicodedata.category(c) in kinds else c for c in text)
