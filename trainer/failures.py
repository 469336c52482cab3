"""What a failed call to a disk means for the user: one sentence that names file and cause, and an exit code."""

import contextlib
import errno
import functools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from schemas.errors import PASSING_ERRORS
from trainer.errors import Busy, TrainerError

_FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk quota is used up"}
_FILES = {errno.EMFILE: "too many open files", errno.ENFILE: "the system has too many open files"}
_CLOSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR})
# What MindSpore's C++ code, which raises RuntimeError, may have from strerror. Not ENOMEM, which is seldom a disk's.
_NATIVE = (PASSING_ERRORS | _CLOSED | _FULL.keys()) - {errno.ENOMEM, errno.EAGAIN}
_TEXTS = {os.strerror(number): number for number in _NATIVE}
_PATH = re.compile(r"(?<![\w.])/[^\s'\",;:\])]+")
_TRIES = 20  # of a call that signals interrupt

Call = TypeVar("Call", bound=Callable[..., Any])


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


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name `path` in an OSError that names no file, as those of write, fsync and close."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def until_uninterrupted(call: Call) -> Call:
    """Have a function that may be called again do so when a signal has interrupted it; Python does that for most calls
    to a file, but not for those to a folder.
    """

    @functools.wraps(call)
    def repeated(*arguments: Any, **options: Any) -> Any:
        for _ in range(_TRIES):
            with contextlib.suppress(InterruptedError):
                return call(*arguments, **options)
        return call(*arguments, **options)

    return repeated  # type: ignore[return-value]
