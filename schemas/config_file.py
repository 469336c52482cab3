"""Reads the options of a program from a TOML file (`--config`)."""

import difflib
import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from schemas.storage.text_file import Unusable, read_text


def read_options(path: Path, known: Iterable[str]) -> dict[str, Any]:
    """Return the keys and values of a file. Keys are option names, written with dashes or underscores.

    Raises Unusable if the file cannot be read, is not TOML or has a key that is not in `known` (with underscores).
    """
    toml = _toml_reader()
    try:
        values: dict[str, Any] = toml.loads(read_text(path))
    except toml.TOMLDecodeError as error:
        raise Unusable(f"{path} is not valid TOML: {error}") from None
    except RecursionError:
        raise Unusable(f"{path} is not valid TOML: its values are nested too deeply") from None
    names = {name.replace("_", "-") for name in known}
    for key in values:
        name = key.replace("_", "-")
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(sorted(names))}"
            raise Unusable(f"{path}: unknown key '{key}'; {hint}")
    return values


def _toml_reader() -> Any:
    for name in ("tomllib", "tomli"):  # in the standard library since Python 3.11
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise Unusable("--config needs a TOML reader on Python 3.10: pip install tomli")
