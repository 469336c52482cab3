"""Writes docs/cli.md from the commands themselves: python scripts/cli_reference.py. A test holds the two together."""

import html
import inspect
import sys
from pathlib import Path

import click

ROOT = Path(__file__).parent.parent
FILE = ROOT / "docs" / "cli.md"

HEAD = """# Commands

Written by `python scripts/cli_reference.py` from the programs themselves; `COMMAND --help` says the same.

Every error is one line on stderr, `Error: ` and a sentence. Exit codes: 0 done; 1 failed; 2 wrong usage; 3 the data was
refused, a rerun will not help; 75 try again later; 130 and 143 interrupted, the same command goes on. The result goes
to stdout, all else to stderr. `NO_COLOR=1` takes the colour away.

The shell completes commands, options and names after

```bash
eval "$(_DATAPREP_COMPLETE=bash_source dataprep)"
eval "$(_TRAINER_COMPLETE=bash_source trainer)"
```

in `~/.bashrc`; `zsh_source` and `fish_source` are for the other two.
"""


def reference() -> str:
    """The text of docs/cli.md."""
    sys.path.insert(0, str(ROOT))
    from dataprep.cli.commands import main as dataprep
    from trainer.cli.commands import cli as trainer

    return "\n".join([HEAD, *(_program(name, group) for name, group in (("dataprep", dataprep), ("trainer", trainer)))])


def _program(name: str, group: click.Group) -> str:
    return "\n".join(
        f"## {name} {command_name}\n\n{_command(f'{name} {command_name}', command)}"
        for command_name, command in group.commands.items()
    )


def _command(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=path)
    usage = " ".join(command.collect_usage_pieces(context))
    options = [option.get_help_record(context) for option in command.params if isinstance(option, click.Option)]
    rows = [f"| `{_cell(name)}` | {html.escape(_cell(text), quote=False)} |" for name, text in filter(None, options)]
    table = ["| Option | Meaning |", "|---|---|", *rows]
    return "\n".join([f"```\n{path} {usage}\n```\n", _prose(command), "", *table, ""])


def _prose(command: click.Command) -> str:
    paragraphs = inspect.cleandoc(command.help or "").replace("\b\n", "").split("\n\n")
    return "\n\n".join(
        f"`{text.removeprefix('Example: ').strip()}`" if text.startswith("Example: ") else " ".join(text.split("\n"))
        for text in paragraphs
    )


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    FILE.write_text(reference(), encoding="utf-8")
