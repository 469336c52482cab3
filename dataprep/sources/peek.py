"""Looks at the first bytes of a file during the scan, and never waits longer than a deadline for them."""

import os
import queue
import threading

from dataprep.disk import OWN_ERRORS
from dataprep.images.signatures import looks_like_image
from schemas.errors import PASSING_ERRORS
from schemas.process.memory import demand_threads, is_shortage

PEEK_S = 60.0


def opens_as_image(path: bytes, deadline_s: float = PEEK_S) -> bool:
    """Return True if the file begins as an image does, or cannot be read: the builder rejects it with its reason.
    Raises OSError where that may pass: what is planned without a look would be another set than with one.

    The file is opened without blocking, since a FIFO may have taken its place. It is read in a thread, since a mount
    that has stalled never answers; that thread is left behind then. Raises MemoryError.
    """
    if _reader.stalled:
        _reader.restart()
    return _reader.ask(path, deadline_s)


class _Reader:
    """A thread that reads the first bytes of one file after the other."""

    def __init__(self) -> None:
        self.stalled = True  # there is no thread yet
        self._asked: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bool | Exception] = queue.SimpleQueue()

    def restart(self) -> None:
        """Start a thread with queues of its own: the one left behind answers into its old ones."""
        self._asked.put(None)
        self._asked, self._answers = queue.SimpleQueue(), queue.SimpleQueue()
        demand_threads(1)
        threading.Thread(target=_serve, args=(self._asked, self._answers), daemon=True).start()
        self.stalled = False

    def ask(self, path: bytes, deadline_s: float) -> bool:
        """See opens_as_image."""
        self._asked.put(path)
        try:
            answer = self._answers.get(timeout=deadline_s)
        except queue.Empty:
            self.stalled = True
            return True
        if not isinstance(answer, Exception):
            return answer
        if isinstance(answer, OSError) and answer.errno not in PASSING_ERRORS | OWN_ERRORS and not is_shortage(answer):
            return True
        raise answer


_reader = _Reader()


def _serve(asked: "queue.SimpleQueue[bytes | None]", answers: "queue.SimpleQueue[bool | Exception]") -> None:
    while path := asked.get():
        try:
            answers.put(looks_like_image(read_head(path)))
        except Exception as error:
            answers.put(error)


def read_head(path: bytes) -> bytes:
    """Return the first bytes of a file, opened without blocking; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 32)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        os.close(descriptor)
