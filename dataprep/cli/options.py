"""Option types of `dataprep`, and the callbacks that read its option files."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schemas.command_line import use_config_file
from schemas.storage.text_file import Unusable, read_text

if TYPE_CHECKING:
    from dataprep.options import Budget

    _ParamType = click.ParamType[Any]  # generic since click 8.5
else:
    _ParamType = click.ParamType

_UNITS = {
    "": 1,
    "k": 1000,
    "m": 1000**2,
    "g": 1000**3,
    "t": 1000**4,
    "ki": 1 << 10,
    "mi": 1 << 20,
    "gi": 1 << 30,
    "ti": 1 << 40,
}


class Size(_ParamType):
    """A size in bytes, as in 512MiB, 2GB or 1000."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the size in bytes."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?", str(value).strip().lower())
        if not match or match[2] not in _UNITS or float(match[1]) <= 0:
            self.fail(f"'{value}' is not a size; write it as 512MiB, 2GB or a number of bytes", param, ctx)
        return max(1, int(float(match[1]) * _UNITS[match[2]]))


class WorkersType(_ParamType):
    """A number of processes, or auto (None)."""

    name = "number|auto"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """Return the number, None for auto."""
        if value == "auto":
            return None
        if not re.fullmatch(r"[1-9]\d*", str(value)):
            self.fail(f"'{value}' is not a number of processes or auto", param, ctx)
        return int(str(value))


class BudgetType(_ParamType):
    """A number or percentage of files, as in 20, 1% or 0.5%."""

    name = "number|percent"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> "Budget":
        """Return the budget."""
        from dataprep.options import Budget

        if isinstance(value, Budget):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", str(value).strip())
        if not match or (not match[2] and "." in match[1]) or (match[2] and float(match[1]) > 100):
            self.fail(f"'{value}' is not a number of files or a percentage such as 1%", param, ctx)
        return Budget(float(match[1]) / 100, True) if match[2] else Budget(float(match[1]), False)


def load_config(ctx: click.Context, _param: click.Parameter, path: Path | None) -> None:
    """Callback of --config: take defaults from a TOML file."""
    if path is not None:
        options = (option for option in ctx.command.params if not isinstance(option, click.Argument))
        use_config_file(ctx, path, [str(option.name) for option in options if option.expose_value])


def check_finite(values: Mapping[str, object]) -> None:
    """Raise UsageError for NaN and infinity, which click's ranges accept."""
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise click.UsageError(f"--{name.replace('_', '-')} {value} is not a finite number")


def class_names(path: Path) -> tuple[str, ...]:
    """Return the class names of a file, in label order.

    Raises UsageError if the file has no name or a repeated one.
    """
    try:
        names = [line for line in read_text(path).splitlines() if line.strip()]
    except Unusable as error:
        raise click.UsageError(f"--classes: {error}") from None
    twice = sorted({name for name in names if names.count(name) > 1})
    if not names or twice:
        problem = f"class '{twice[0]}' is listed twice" if twice else "no class is listed"
        raise click.UsageError(f"{path}: {problem}")
    return tuple(names)
