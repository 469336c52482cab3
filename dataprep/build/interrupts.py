"""Signals that end a job, raised where that is safe.

Python runs a handler between any two steps of the main thread. An exception raised inside concurrent.futures can leave
one of its locks taken, and then the pool's own thread and the end of the process wait for ever (met on Python 3.11).
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from schemas.process.stop_signals import stop_signals


class Interrupted(BaseException):
    """A signal other than Ctrl-C: a scheduler wants the job to end."""


_deferring = 0
_pending: BaseException | None = None


def raise_on_signals() -> None:
    """Have KeyboardInterrupt raised for SIGINT, and Interrupted for every other signal that ends a job."""
    for number in stop_signals():
        signal.signal(number, _handle)


@contextmanager
def deferred() -> Iterator[None]:
    """Inside, signals are noted; the first of them is raised at the end. For steps that take a second at most."""
    global _deferring, _pending
    _deferring += 1
    try:
        yield
    finally:
        _deferring -= 1
        if _pending is not None and not _deferring:
            noted, _pending = _pending, None
            _raise(noted)


def _handle(number: int, _frame: object) -> None:
    global _pending
    error = KeyboardInterrupt() if number == signal.SIGINT else Interrupted()
    if not _deferring:
        _raise(error)
    _pending = _pending or error


def _raise(error: BaseException) -> NoReturn:
    raise error
