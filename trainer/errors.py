"""What the trainer raises on purpose; cli.py turns each into one line and an exit code."""

import difflib
import errno
import os
import re
import signal
from collections.abc import Iterable
from pathlib import Path

from schemas.errors import PASSING_ERRORS
from schemas.process.stop_signals import exit_code

_FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk quota is used up"}
_FILES = {errno.EMFILE: "too many open files", errno.ENFILE: "the system has too many open files"}
_CLOSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR})
# What MindSpore's C++ code, which raises RuntimeError, may have from strerror. Not ENOMEM, which is seldom a disk's.
_NATIVE = (PASSING_ERRORS | _CLOSED | _FULL.keys()) - {errno.ENOMEM, errno.EAGAIN}
_TEXTS = {os.strerror(number): number for number in _NATIVE}
_PATH = re.compile(r"(?<![\w.])/[^\s'\",;:\])]+")

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


def disk_error(error: OSError, what: str = "", advice: str = "") -> TrainerError:
    """Return the error to raise in place of `error`: Busy where trying again helps.

    `what` was not possible; without it the file is named. `advice` is the end of the sentence where none is better.
    """
    number, file = error.errno, what or name_of(error)
    again = "the same command goes on"
    cause = error.strerror or str(error) or type(error).__name__
    if number in _FULL:
        return Busy(f"{_FULL[number]} ({file}); with room again, {again}")
    if number in _FILES:
        return Busy(f"{_FILES[number]} ({file}); raise the limit with 'ulimit -n', then {again}")
    if number in PASSING_ERRORS or number == errno.EINTR:
        return Busy(f"{file}: {cause}; once the disk or share answers again, {again}")
    if not advice and number in _CLOSED:
        advice = "let this user read and write there, or give another path"
    if not advice and number in _GONE:
        advice = "was it moved or removed? Put it back, or give another path"
    return TrainerError(f"{file}: {cause}" + (f"; {advice}" if advice else ""))


def name_of(error: OSError) -> str:
    """Return the file that an error names, or that it names none."""
    if isinstance(error.filename, (str, bytes)):
        return os.fsdecode(error.filename)
    return "a file or stream"


def disk_error_behind(error: BaseException) -> OSError | None:
    """Return the OSError that another error was raised from, or whose text MindSpore's C++ code has put into it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError):
            return cause
        cause = cause.__cause__
    text = str(error)
    for said, number in _TEXTS.items():
        if said in text:
            found = _PATH.search(text)
            return OSError(number, said, found[0] if found else None)
    return None
