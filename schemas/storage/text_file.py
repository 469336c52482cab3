"""Read small text files that people write: class lists and TOML options, from any editor."""

import codecs
import importlib
from pathlib import Path
from typing import Any

from schemas.errors import ContractError
from schemas.storage.regular_file import open_regular

MAX_BYTES = 16 << 20
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


class Unusable(ValueError):
    """The file cannot be used; the text begins with its name and says why."""


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


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file of options. Raises Unusable."""
    toml = _toml_reader()
    try:
        values: dict[str, Any] = toml.loads(read_text(path))
    except toml.TOMLDecodeError as error:
        raise Unusable(f"{path} is not valid TOML: {error}") from None
    except RecursionError:
        raise Unusable(f"{path} is not valid TOML: its values are nested too deeply") from None
    return values


def _toml_reader() -> Any:
    for name in ("tomllib", "tomli"):  # tomllib since Python 3.11
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise Unusable("--config needs a TOML reader on Python 3.10: pip install tomli")
