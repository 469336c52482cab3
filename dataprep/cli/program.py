"""Turns the exceptions of a command into one line on stderr and an exit code."""

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import click

from dataprep.build.interrupts import Interrupted, raise_on_signals
from dataprep.errors import DataprepError, DataRejected, TryLater
from dataprep.storage.disk import explained
from dataprep.storage.remote import with_addresses
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
    "of the batch job) or use fewer --workers; run the same command to resume"
)


class Command(click.Command):
    """A command that first warns about lists of its --config file that an option replaces."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        for warning in replaced_lists(ctx):
            click.echo(label("Warning", "yellow", sys.stderr) + printable(warning), err=True)
        return super().invoke(ctx)


class Program(click.Group):
    """A group that reports expected errors as `Error: ...` with an exit code. Other errors keep their traceback."""

    command_class = Command

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run the program. Exit with 2 if the command line is wrong."""
        prepare_streams()
        leave_unusable_directory()
        if not args and "args" not in extra:  # not in a test
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
        """Run a command. Exit with the code of its exception."""
        raise_on_signals()
        try:
            return super().invoke(ctx)
        except (DataprepError, ContractError) as error:
            fail(with_addresses(str(error)), getattr(error, "exit_code", DataRejected.exit_code))
        except Interrupted:
            fail(_stopped(ctx), TERMINATE_EXIT)
        except KeyboardInterrupt:
            fail(_stopped(ctx), INTERRUPT_EXIT)
        except BrokenPipeError:
            sys.stderr.close()
            sys.exit(1)
        except Exception as error:
            explanation = explained(error, "a file")
            if explanation is not None:
                fail(str(explanation), explanation.exit_code)
            if not is_shortage(error):
                raise
            fail(f"{OUT_OF_MEMORY} ({str(error) or type(error).__name__})", TryLater.exit_code)


def _stopped(ctx: click.Context) -> str:
    """Return the state of an interrupted job."""
    describe: Callable[[], str] | None = ctx.meta.get("stopped")
    return describe() if describe else "stopped"


def fail(message: str, code: int) -> NoReturn:
    """Print an error and exit."""
    click.echo(label("Error", "red", sys.stderr) + printable(message), err=True)
    sys.exit(code)
