"""What the trainer raises on purpose; cli.py turns each into one line and an exit code."""

import difflib
import signal
from collections.abc import Iterable
from pathlib import Path

from schemas.stop_signals import exit_code


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
    """A signal asked the run to stop, and it did; `saved` is the checkpoint with the work so far, if any."""

    def __init__(self, signum: int, saved: Path | None) -> None:
        where = f"; the last checkpoint is {saved}; the same command with --resume goes on" if saved else ""
        super().__init__(f"stopped by {signal.Signals(signum).name}{where}")
        self.exit_code = exit_code(signum)


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: the near one if there is one, and all that exist."""
    choices = sorted(known)
    close = difflib.get_close_matches(word, choices, n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f"{hint}known: {', '.join(choices)}"
