"""The program around the commands: turns what a command raises into one line on stderr and an exit code."""

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import click

from dataprep.build.interrupts import Interrupted, raise_on_signals
from dataprep.disk import explained
from dataprep.errors import DataprepError, DataRefused, TryLater
from schemas.command_line import HELP_SHOWN, label, replaced_lists, usage_error
from schemas.errors import ContractError
from schemas.names import printable
from schemas.process.locale import use_utf8
from schemas.process.memory import is_shortage
from schemas.process.stop_signals import INTERRUPT_EXIT, TERMINATE_EXIT
from schemas.process.streams import prepare_streams
from schemas.process.working_directory import leave_unusable_directory

OUT_OF_MEMORY = (
    "memory, a process or a thread could not be allocated; raise the limit (`ulimit -v`, `ulimit -u`, the memory "
    "of the batch job) or use fewer --workers; the same command goes on"
)


class Command(click.Command):
    """A command that says, before it begins, which lists of its --config file are not in effect."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        for replaced in replaced_lists(ctx):
            click.echo(label("Warning", "yellow", sys.stderr) + printable(replaced), err=True)
        return super().invoke(ctx)


class Program(click.Group):
    """One place turns what the user can mend into `Error: ...` and an exit code; all else keeps its traceback."""

    command_class = Command

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run the program; exits 2 when the command line is wrong."""
        prepare_streams()
        leave_unusable_directory()
        if not args and "args" not in extra:  # on this process's own command line, not a test's
            use_utf8()
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except click.Abort:
            fail("stopped", 130)
        except HELP_SHOWN as error:
            error.show()
            sys.exit(2)
        except click.ClickException as error:
            fail(usage_error(error), 2)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; exits by what went wrong."""
        raise_on_signals()
        try:
            return super().invoke(ctx)
        except (DataprepError, ContractError) as error:
            fail(str(error), getattr(error, "exit_code", DataRefused.exit_code))
        except Interrupted:
            fail(_stopped(ctx), TERMINATE_EXIT)
        except KeyboardInterrupt:
            fail(_stopped(ctx), INTERRUPT_EXIT)
        except BrokenPipeError:
            sys.stderr.close()
            sys.exit(1)
        except Exception as error:
            said = explained(error, "a file")
            if said is not None:
                fail(str(said), said.exit_code)
            if not is_shortage(error):
                raise
            fail(f"{OUT_OF_MEMORY} ({str(error) or type(error).__name__})", TryLater.exit_code)


def _stopped(ctx: click.Context) -> str:
    """What a job that was interrupted has come to."""
    said: Callable[[], str] | None = ctx.meta.get("stopped")
    return said() if said else "stopped"


def fail(message: str, code: int) -> NoReturn:
    """Print an error and exit."""
    click.echo(label("Error", "red", sys.stderr) + printable(message), err=True)
    sys.exit(code)
