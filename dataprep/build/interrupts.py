"""Raise signals that end a job only where it is safe.

Python runs a signal handler between any two bytecodes of the main thread. An exception inside concurrent.futures can
leave a lock held, and then the process hangs at its end (seen on Python 3.11).
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from schemas.process.stop_signals import stop_signals


class Interrupted(BaseException):
    """A signal other than Ctrl-C asks the job to end."""


_deferring = 0
_pending: BaseException | None = None


def raise_on_signals() -> None:
    """Raise KeyboardInterrupt on SIGINT and Interrupted on every other signal that ends a job."""
    for number in stop_signals():
        signal.signal(number, _handle)


@contextmanager
def deferred() -> Iterator[None]:
    """Delay signals and raise the first one at the end. Use it for blocks of at most one second."""
    global _deferring, _pending
    _deferring += 1
    try:
        yield
    finally:
        _deferring -= 1
        if _pending is not None and not _deferring:
            error, _pending = _pending, None
            _raise(error)


def _handle(number: int, _frame: object) -> None:
    global _pending
    error = KeyboardInterrupt() if number == signal.SIGINT else Interrupted()
    if not _deferring:
        _raise(error)
    _pending = _pending or error


def _raise(error: BaseException) -> NoReturn:
    raise error
