"""Exceptions for expected errors, each with an exit code. cli/program.py prints the messages."""

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
# Errors whose strerror text may be in a RuntimeError of MindSpore's C++ code. A disk seldom causes ENOMEM or EAGAIN.
_NATIVE = (PASSING_ERRORS | _CLOSED | _FULL.keys()) - {errno.ENOMEM, errno.EAGAIN}
_TEXTS = {os.strerror(number): number for number in _NATIVE}
_PATH = re.compile(r"(?<![\w.])/[^\s'\",;:\])]+")


class TrainerError(Exception):
    """A request that cannot be fulfilled. The message says what is wrong, where, and what to do next."""

    exit_code = 1


class WrongUsage(TrainerError):
    """An invalid option value."""

    exit_code = 2


class Unlisted(TrainerError):
    """Folders whose files could not be listed."""

    exit_code = 3


class Busy(TrainerError):
    """A resource (lock, disk, network share) that is temporarily unavailable. Trying again later may help."""

    exit_code = 75


class Interrupted(Exception):
    """Stop of a run by the signal `signum`. `saved` is the last checkpoint, or None."""

    def __init__(self, signum: int, saved: Path | None) -> None:
        where = f"; the last checkpoint is {saved}; resume with the same command and --resume" if saved else ""
        super().__init__(f"stopped by {signal.Signals(signum).name}{where}")
        self.exit_code = exit_code(signum)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the end of an error message about an unknown word: the closest known word, and all known words."""
    choices = sorted(known)
    close = difflib.get_close_matches(word, choices, n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f"{hint}known: {', '.join(choices)}"


def disk_error(error: OSError, what: str = "", advice: str = "") -> TrainerError:
    """Return the TrainerError to raise instead of `error`, of type Busy if trying again may help.

    `what` describes the failed action; the default is the file name. `advice` tells the user what to do next. A
    full disk, too many open files and temporary errors have their own advice.
    """
    number, file = error.errno, what or name_of(error)
    again = "run the same command again"
    cause = error.strerror or str(error) or type(error).__name__
    if number in _FULL:
        return Busy(f"{_FULL[number]} ({file}); free some space, then {again}")
    if number in _FILES:
        return Busy(f"{_FILES[number]} ({file}); raise the limit with 'ulimit -n', then {again}")
    if number in PASSING_ERRORS or number == errno.EINTR:
        return Busy(f"{file}: {cause}; when the disk or share is available again, {again}")
    if not advice and number in _CLOSED:
        advice = "give this user read and write access, or use another path"
    if not advice and number in _GONE:
        advice = "restore it if it was moved or removed, or use another path"
    return TrainerError(f"{file}: {cause}" + (f"; {advice}" if advice else ""))


def name_of(error: OSError) -> str:
    """Return the name of the file in an error, or a placeholder if the error has no file name."""
    if isinstance(error.filename, (str, bytes)):
        return os.fsdecode(error.filename)
    return "a file or stream"


def disk_error_behind(error: BaseException) -> OSError | None:
    """Return the OSError that caused `error`, possibly as text in a message of MindSpore's C++ code, or None."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError):
            return cause
        cause = cause.__cause__
    text = str(error)
    for message, number in _TEXTS.items():
        if message in text:
            path = _PATH.search(text)
            return OSError(number, message, path[0] if path else None)
    return None


def raise_disk_error(error: BaseException, path: Path | None = None) -> None:
    """Raise the OSError that caused `error`, if any (see disk_error_behind), with `path` as its file name."""
    if (behind := disk_error_behind(error)) is not None:
        if path is not None:
            behind.filename = str(path)
        raise behind from None


def first_line(error: BaseException) -> str:
    """Return the line of a MindSpore error with the cause: the first line marked [ERROR], or the first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    marked = [line.removeprefix("[ERROR]").strip() for line in lines if line.startswith("[ERROR]")]
    return next(iter([*marked, *lines]), type(error).__name__)
