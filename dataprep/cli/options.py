"""Click parameter types and the --config option."""

import difflib
import json
import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schemas.config_lists import CONFIG_FILE
from schemas.errors import PASSING_ERRORS
from schemas.process.working_directory import directory_problem
from schemas.storage.text_file import Unusable, read_text, read_toml

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


class PathType(click.Path):
    """click.Path that refuses a relative path where the working directory cannot be entered, with the right cause."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert and check as click.Path does."""
        problem = directory_problem(os.fspath(value))
        if problem:
            self.fail(problem, param, ctx)
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            if not _is_away(value):
                raise
            return self.coerce_path_result(value)  # the command says what the disk does, and to try again later


def _is_away(path: str | os.PathLike[str]) -> bool:
    """Return True for a path that cannot be looked up now, as on a share that is away; click calls it absent."""
    try:
        os.stat(path)
    except OSError as error:
        return error.errno in PASSING_ERRORS
    return False


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
    """Take defaults from a TOML file: default < file < flag. An unknown key is an error that names the near one."""
    if path is None:
        return
    known = {
        option.name: option
        for option in ctx.command.params
        if option.expose_value and not isinstance(option, click.Argument)
    }
    defaults: dict[str, Any] = {}
    try:
        values = read_toml(path)
    except Unusable as error:
        raise click.UsageError(str(error)) from None
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in known:
            near = difflib.get_close_matches(name, [str(option) for option in known], 1)
            hint = f"; did you mean '{near[0].replace('_', '-')}'?" if near else ""
            raise click.UsageError(f"{path}: unknown key '{key}'{hint}")
        _check_value(known[name], ctx, path, key, value)
        defaults[name] = value
    ctx.default_map = {**(ctx.default_map or {}), **defaults}
    ctx.meta[CONFIG_FILE] = str(path)


def _check_value(option: click.Parameter, ctx: click.Context, path: Path, key: str, value: Any) -> None:
    """Have click convert the value here, where it is known that it stands in a file."""
    if option.multiple and not isinstance(value, list):
        raise click.UsageError(f"{path}: '{key}' takes a list, as in {key} = [{json.dumps(str(value))}]")
    try:
        option.type_cast_value(ctx, value)
    except (click.BadParameter, TypeError) as error:
        said = error.message if isinstance(error, click.BadParameter) else f"{value!r} is not a valid value"
        raise click.UsageError(f"{path}: '{key}': {said}") from None


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
