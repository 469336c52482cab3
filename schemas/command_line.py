"""Parts of both command lines: messages, paths and the --config option. The only user of click in schemas."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

import click

from schemas.config_file import read_options
from schemas.errors import PASSING_ERRORS
from schemas.process.working_directory import directory_problem
from schemas.storage.text_file import Unusable

_CLICK_STARTS = (
    "Invalid value",
    "Missing ",
    "No such ",
    "Got unexpected ",
    "Option '",
    "Could not open ",
    "Argument '",
)
_CONFIG_FILE = "config_file"  # in the context's meta: the path of the --config file
# Since click 8.2, raised after a group without a command has shown its help.
HELP_SHOWN: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


def label(word: str, colour: str, stream: TextIO) -> str:
    """Return `word: `, coloured if `stream` is a terminal and NO_COLOR is not set."""
    plain = not stream.isatty() or os.environ.get("NO_COLOR")
    return f"{word}: " if plain else click.style(f"{word}: ", fg=colour)


def usage_error(error: click.ClickException) -> str:
    """Return the message of a usage error, with a reference to --help."""
    message = error.format_message()
    if message.startswith(_CLICK_STARTS):  # other messages are ours and may start with a name whose case matters
        message = message[:1].lower() + message[1:]
    message += "" if message.endswith((".", "?")) else "."
    context = getattr(error, "ctx", None)
    return f"{message} See '{context.command_path} --help'" if context else message


class PathType(click.Path):
    """A click.Path that reports an unusable working directory, and accepts a path on a disk that does not answer."""

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
            return self.coerce_path_result(value)  # the command reports the disk's error: try again later


def _is_away(path: str | os.PathLike[str]) -> bool:
    """Return True if the disk or share of `path` does not answer now; click reports such a path as missing."""
    try:
        os.stat(path)
    except OSError as error:
        return error.errno in PASSING_ERRORS
    return False


def use_config_file(context: click.Context, path: Path, known: Iterable[str]) -> None:
    """Make the values of a TOML file the defaults of a command: default < file < flag.

    `known` names the options (with underscores) that the file may have. Options of other commands are not checked.
    Raises click.UsageError for a file that cannot be read, an unknown key and a value that its option does not accept.
    """
    try:
        values = read_options(path, known)
    except Unusable as error:
        raise click.UsageError(str(error)) from None
    options = {option.name: option for option in context.command.params}
    for key, value in values.items():
        option = options.get(key.replace("-", "_"))
        if option:
            _check_value(option, context, path, key, value)
    defaults = {key.replace("-", "_"): value for key, value in values.items()}
    context.default_map = {**(context.default_map or {}), **defaults}
    context.meta[_CONFIG_FILE] = str(path)


def _check_value(option: click.Parameter, context: click.Context, path: Path, key: str, value: Any) -> None:
    """Check the value of `key`. Raises click.UsageError, which names the file, if its option rejects it."""
    if getattr(option, "multiple", False) and not isinstance(value, list):
        raise click.UsageError(f"{path}: '{key}' takes a list, as in {key} = [{json.dumps(str(value))}]")
    try:
        option.type_cast_value(context, value)
    except (click.BadParameter, TypeError) as error:
        problem = error.message if isinstance(error, click.BadParameter) else f"{value!r} is not a valid value"
        raise click.UsageError(f"{path}: '{key}': {problem}") from None


def replaced_lists(context: click.Context) -> list[str]:
    """Return a warning for each list of the --config file that a repeatable flag replaces; click never joins lists."""
    file, in_file = context.meta.get(_CONFIG_FILE), context.default_map or {}
    warnings = []
    for option in context.command.params:
        values = in_file.get(option.name)
        source = context.get_parameter_source(str(option.name))
        if file and values and getattr(option, "multiple", False) and source and source.name == "COMMANDLINE":
            flag = option.opts[0]
            count = "the value" if len(values) == 1 else f"the {len(values):,} values"
            warnings.append(
                f"{flag} on the command line replaces {count} of '{flag.lstrip('-')}' in {file}; to keep them, "
                f"repeat them: {' '.join(f'{flag} {value!r}' for value in values[:3])}{' ...' * (len(values) > 3)}"
            )
    return warnings
