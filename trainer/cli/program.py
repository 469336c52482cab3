"""Run a command and turn exceptions into one line on stderr and an exit code."""

import sys

import click

from schemas.command_line import HELP_SHOWN, label, usage_error
from schemas.errors import ContractError
from schemas.process.working_directory import leave_unusable_directory
from trainer.errors import Interrupted, TrainerError, disk_error, disk_error_behind

FAILED, USAGE, REJECTED, INTERRUPTED = 1, 2, 3, 130


def run_program(cli: click.Group) -> int:
    """Run a command and return its exit code. An error is printed as one line on stderr."""
    leave_unusable_directory()
    try:
        code = cli.main(standalone_mode=False)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except click.Abort:
        return tell("stopped", INTERRUPTED)
    except HELP_SHOWN as error:
        error.show()
        return USAGE
    except click.ClickException as error:
        return tell(usage_error(error), USAGE)
    except (TrainerError, ContractError, Interrupted) as error:
        return tell(str(error), getattr(error, "exit_code", REJECTED))
    except (OSError, RuntimeError, ValueError) as error:
        if (cause := disk_error_behind(error)) is None:
            raise
        shown = disk_error(cause)
        return tell(str(shown), shown.exit_code)
    return code if isinstance(code, int) else 0


def tell(message: str, code: int) -> int:
    """Print an error on stderr and return `code`."""
    click.echo(label("Error", "red", sys.stderr) + message, err=True)
    return code
