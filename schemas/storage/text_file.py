"""Read small text files written by users in any editor: class lists and TOML options."""

import codecs
from pathlib import Path

from schemas.errors import ContractError
from schemas.storage.regular_file import open_regular

MAX_BYTES = 16 << 20
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


class Unusable(ValueError):
    """A file cannot be used. The message begins with the name of the file and says why."""


def read_text(path: Path) -> str:
    """Read a text file in UTF-8, or in UTF-16 with a byte order mark, as Windows editors write it. Raises Unusable."""
    try:
        with open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}") from None
    except ContractError as error:
        raise Unusable(str(error)) from None
    if len(data) > MAX_BYTES:
        raise Unusable(f"{path} is larger than {MAX_BYTES >> 20} MiB, too large for this kind of file")
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unusable(f"{path} is not UTF-8 text (line {line}); save it as UTF-8") from None
