"""Read the first bytes of a file during the scan, with a deadline."""

import os
import queue
import threading

from dataprep.images.signatures import looks_like_image
from dataprep.storage.disk import OWN_ERRORS
from schemas.errors import PASSING_ERRORS
from schemas.process.memory import demand_threads, is_shortage

PEEK_S = 60.0


def opens_as_image(path: bytes, deadline_s: float = PEEK_S) -> bool:
    """Return True if the file has an image signature or cannot be read.

    The build rejects an unreadable file with a reason. The file is opened without blocking, since it may be a FIFO. It
    is read in a thread, since a mount may hang, and such a thread is abandoned. Raises OSError for temporary errors,
    which must not change the plan, and MemoryError if memory is short.
    """
    if _reader.stalled:
        _reader.restart()
    return _reader.ask(path, deadline_s)


class _Reader:
    """A thread that reads the first bytes of files."""

    def __init__(self) -> None:
        self.stalled = True  # no thread yet
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bool | Exception] = queue.SimpleQueue()

    def restart(self) -> None:
        """Start a thread with new queues. An abandoned thread may still write to the old ones."""
        self._requests.put(None)
        self._requests, self._answers = queue.SimpleQueue(), queue.SimpleQueue()
        demand_threads(1)
        threading.Thread(target=_serve, args=(self._requests, self._answers), daemon=True).start()
        self.stalled = False

    def ask(self, path: bytes, deadline_s: float) -> bool:
        """Return opens_as_image(path)."""
        self._requests.put(path)
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


def _serve(requests: "queue.SimpleQueue[bytes | None]", answers: "queue.SimpleQueue[bool | Exception]") -> None:
    while path := requests.get():
        try:
            answers.put(looks_like_image(read_head(path)))
        except Exception as error:
            answers.put(error)


def read_head(path: bytes) -> bytes:
    """Return the first bytes of a file, opened without blocking.

    Raises OSError if it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 32)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        os.close(descriptor)
