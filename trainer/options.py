"""Options that commands share, and their file: declared here, read by click."""

import contextlib
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from trainer.errors import TrainerError, nearest
from trainer.precision import AMP_DTYPES, AMP_LEVELS

F = TypeVar("F", bound=Callable[..., Any])

BY_DEVICE = "[default: by device]"


def read_config(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Callback of --config: the file's values become the command's defaults, so that a flag still wins."""
    if value is None:
        return None
    known = {name.name for name in context.command.params if name.name} - {"config", "dataset", "help"}
    values = {key.replace("-", "_"): entry for key, entry in _toml(value).items()}
    for key in values:
        if key not in known:
            raise click.BadParameter(f"unknown key '{key}'; {nearest(key, known)}", context, parameter)
    context.default_map = {**(context.default_map or {}), **values}
    return value


def _toml(path: str) -> dict[str, Any]:
    try:
        values: dict[str, Any] = _toml_reader().loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise TrainerError(f"cannot read {path}: {error}") from None
    return values


def _toml_reader() -> Any:
    for name in ("tomllib", "tomli"):  # the standard library has it since Python 3.11
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    raise TrainerError("--config needs a TOML reader on Python 3.10: pip install tomli")


def options(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Apply option decorators so that --help lists them in the order written."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


device_options = options(
    click.option("--device", type=click.Choice(["auto", "Ascend", "CPU"]), help="[default: auto: Ascend when found]"),
    click.option("--mode", type=click.Choice(["graph", "pynative"]), help="pynative is for debugging [default: graph]"),
    click.option("--amp-level", type=click.Choice(AMP_LEVELS), help=f"Mixed precision. {BY_DEVICE}"),
    click.option("--amp-dtype", type=click.Choice(AMP_DTYPES), help="Its low type. [default: float16]"),
    click.option(
        "--workers", type=click.IntRange(1), help="Threads that decode. [default: one a core, if memory allows]"
    ),
    click.option(
        "--prefetch", type=click.IntRange(1, 128), help="Batches each operator holds ready. [default: 8, or less]"
    ),
    click.option("--full-check", is_flag=True, help="Hash every byte of the data first, whatever its size."),
)

output_options = options(
    click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object."),
    click.option("-v", "--verbose", is_flag=True, help="Show MindSpore's own warnings."),
)
