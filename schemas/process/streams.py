"""Make stdin, stdout and stderr safe to use.

A stream may be closed, its disk may be full, or its encoding may lack characters. A result is not lost if printing it
fails, and a job does not fail if its progress cannot be shown.
"""

import contextlib
import io
import os
import sys
from typing import TextIO


class _Expendable(io.TextIOWrapper):
    """A stderr that drops all output after a failed write (a full disk, a closed pipe)."""

    def write(self, text: str) -> int:
        """Write `text` or drop it."""
        try:
            return super().write(text)
        except OSError:
            self._give_up()
            return len(text)

    def flush(self) -> None:
        """Flush the buffer or drop its content."""
        try:
            super().flush()
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        _silence(self.fileno())
        with contextlib.suppress(OSError):
            super().flush()


def prepare_streams() -> None:
    """Make the three streams usable. Call it before anything is opened or printed.

    A closed descriptor 0, 1 or 2 is opened on /dev/null, so that no file of the program gets its number. Characters
    that the encoding lacks are printed as escapes.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is `descriptor`
            os.set_inheritable(descriptor, True)  # workers need all three too
        if getattr(sys, name) is None:
            stream = open(descriptor, "r" if descriptor == 0 else "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
    for printed in (sys.stdout, sys.stderr):
        if isinstance(printed, io.TextIOWrapper):
            printed.reconfigure(errors="backslashreplace")
    sys.stderr = _expendable(sys.stderr)


def _expendable(stream: TextIO) -> TextIO:
    if type(stream) is not io.TextIOWrapper:  # replaced by a test or a host program
        return stream
    raw = open(stream.fileno(), "wb", buffering=0, closefd=False)  # noqa: SIM115  it lives as long as the process
    return _Expendable(raw, encoding=stream.encoding, errors=stream.errors, line_buffering=True, write_through=True)


def print_result(text: str) -> bool:
    """Print the result of a command on stdout, or on stderr if that fails. Return True if it was printed on stdout.

    Raises BrokenPipeError if the reader has closed the pipe: the reader needs no more output.
    """
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.stderr.write(f"{text}\nError: the result above could not be written to stdout: {error.strerror}\n")
        _silence(1)  # otherwise Python reports the error again at exit
        return False
    return True


def _silence(descriptor: int) -> None:
    """Redirect a descriptor to /dev/null."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
