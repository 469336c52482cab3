"""Labels `Error: ` and `Warning: `, and the text of click's usage errors."""

import os
from typing import Any, TextIO

import click

_CLICK_TEXTS = ("Invalid value", "Missing ", "No such ", "Got unexpected ", "Option '", "Could not open ", "Argument '")
# Raised since click 8.2 when a group is called without a command: click has shown its help.
HELP_SHOWN: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


def label(word: str, colour: str, stream: TextIO) -> str:
    """Return `WORD: `, coloured if the stream is a terminal and NO_COLOR is not set."""
    plain = not stream.isatty() or os.environ.get("NO_COLOR")
    return f"{word}: " if plain else click.style(f"{word}: ", fg=colour)


def usage_error(error: click.ClickException) -> str:
    """Return the message of a click error, with the command whose --help explains it."""
    text = error.format_message()
    if text.startswith(_CLICK_TEXTS):  # other sentences are ours, and may start with a case-sensitive name
        text = text[:1].lower() + text[1:]
    text += "" if text.endswith((".", "?")) else "."
    context = getattr(error, "ctx", None)
    return f"{text} See '{context.command_path} --help'" if context else text
