"""Click parameter types and the --config option."""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schemas.command_line import use_config_file
from schemas.storage.text_file import Unusable, read_text

if TYPE_CHECKING:
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
    """A size in bytes: 512MiB, 2GB, 1000."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The size in bytes."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?", str(value).strip().lower())
        if not found or found[2] not in _UNITS or float(found[1]) <= 0:
            self.fail(f"'{value}' is not a size; write it as 512MiB, 2GB or a number of bytes", param, ctx)
        return max(1, int(float(found[1]) * _UNITS[found[2]]))


class WorkersType(_ParamType):
    """A number of processes, or auto, which is None."""

    name = "number|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        if value == "auto":
            return None
        if not re.fullmatch(r"[1-9]\d*", str(value)):
            self.fail(f"'{value}' is neither a number of processes nor auto", param, ctx)
        return int(value)


class BudgetType(_ParamType):
    """A number of files, or a share of them: 20, 1%, 0.5%."""

    name = "number|percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The budget; imported late, so that --help stays quick."""
        from dataprep.options import Budget

        if isinstance(value, Budget):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", str(value).strip())
        if not found or (not found[2] and "." in found[1]) or (found[2] and float(found[1]) > 100):
            self.fail(f"'{value}' is neither a number of files nor a percentage such as 1%", param, ctx)
        return Budget(float(found[1]) / 100, True) if found[2] else Budget(float(found[1]), False)


def load_config(ctx: click.Context, _param: click.Parameter, path: Path | None) -> None:
    """Callback of --config: take defaults from a TOML file."""
    if path is not None:
        options = (option for option in ctx.command.params if not isinstance(option, click.Argument))
        use_config_file(ctx, path, [str(option.name) for option in options if option.expose_value])


def check_finite(values: dict[str, Any]) -> None:
    """Raise UsageError for a number that is nan or infinite: it passes every range."""
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise click.UsageError(f"--{name.replace('_', '-')} {value} is not a finite number")


def class_names(path: Path) -> tuple[str, ...]:
    """The names in a --classes file, in label order; raises UsageError for a file that names none, or one twice."""
    try:
        names = [line for line in read_text(path).splitlines() if line.strip()]
    except Unusable as error:
        raise click.UsageError(f"--classes: {error}") from None
    twice = sorted({name for name in names if names.count(name) > 1})
    if not names or twice:
        raise click.UsageError(f"{path}: " + (f"class '{twice[0]}' stands twice" if twice else "no class name in it"))
    return tuple(names)
