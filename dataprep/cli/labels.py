"""The shape of what a program says when something is wrong: `Error: ` or `Warning: `, then a sentence."""

import os
from typing import Any, TextIO

import click

_CLICK_SAYS = ("Invalid value", "Missing ", "No such ", "Got unexpected ", "Option '", "Could not open ", "Argument '")
# A program or group that was called without a command has shown its help; so since click 8.2.
HELP_SHOWN: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


def label(word: str, colour: str, stream: TextIO) -> str:
    """`Error: ` and the like, coloured where a person looks on and has not asked for none by NO_COLOR."""
    plain = not stream.isatty() or os.environ.get("NO_COLOR")
    return f"{word}: " if plain else click.style(f"{word}: ", fg=colour)


def usage_error(error: click.ClickException) -> str:
    """What click says of a command line, and where to read on."""
    said = error.format_message()
    if said.startswith(_CLICK_SAYS):  # any other sentence is ours, and may begin with a name whose case counts
        said = said[:1].lower() + said[1:]
    said += "" if said.endswith((".", "?")) else "."
    context = getattr(error, "ctx", None)
    return f"{said} See '{context.command_path} --help'" if context else said
