"""What the trainer raises on purpose; cli.py turns each into one line and an exit code."""

import difflib
import signal
from collections.abc import Iterable
from pathlib import Path

from schemas.process.stop_signals import exit_code

NO_RESUME = "a run of several ranks cannot go on where it stopped"


def use_weights(checkpoint: Path | None) -> str:
    """Return what to do with a run that cannot go on: begin another one, from its weights where there are any."""
    init = "" if checkpoint is None else f"--init {checkpoint} and "
    return f"to begin another run{' from these weights' if init else ''}, give {init}another --out"


class TrainerError(Exception):
    """A request that cannot be served; the text says what, where and what to do next."""

    exit_code = 1


class WrongUsage(TrainerError):
    """An option's value that names nothing."""

    exit_code = 2


class Unlisted(TrainerError):
    """Folders whose files could not be listed."""

    exit_code = 3


class Busy(TrainerError):
    """Another process is at work where this one was to be, or a disk or share is away: try again later."""

    exit_code = 75


class Interrupted(Exception):
    """A signal asked the run to stop, and it did; `saved` is the checkpoint with the work so far, if any.

    The run is one of so many `ranks`.
    """

    def __init__(self, signum: int, saved: Path | None, ranks: int = 1) -> None:
        way = "the same command with --resume goes on" if ranks == 1 else f"{NO_RESUME}; {use_weights(saved)}"
        where = f"; the last checkpoint is {saved}; {way}" if saved else ""
        super().__init__(f"stopped by {signal.Signals(signum).name}{where}")
        self.exit_code = exit_code(signum)


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: the near one if there is one, and all that exist."""
    choices = sorted(known)
    close = difflib.get_close_matches(word, choices, n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f"{hint}known: {', '.join(choices)}"
