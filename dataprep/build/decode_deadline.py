"""Limit the CPU time for decoding one image.

The limit also works while a codec loops in C and holds the interpreter lock. Only user-mode CPU time counts
(ITIMER_VIRTUAL), so a worker that was stopped or swapped out does not exceed the limit.
"""

import faulthandler
import signal
import threading
from pathlib import Path

# Interval between attempts to interrupt Python code: an exception in a destructor is lost.
_REPEAT_S = 1.0
_timer = threading.Lock()  # a process has one such timer


class DecodeTimeout(BaseException):
    """Decoding took too long. Not an Exception, so that no handler in Pillow catches it."""


class DecodeDeadline:
    """A context manager around the decoding of each image. It owns the CPU timer of this process until `close`.

    If `killable`, and an image takes longer than `seconds`, the stack is written to `note` and the process ends.
    Otherwise (serial engine) DecodeTimeout is raised when the codec returns to Python. There is no limit in a second
    thread that builds in this process, or outside the main thread if not `killable`.
    """

    def __init__(self, seconds: float, note: Path, killable: bool) -> None:
        self._seconds = seconds
        self._killable = killable
        self._active = False
        self._owns = (killable or threading.current_thread() is threading.main_thread()) and _timer.acquire(False)
        if not self._owns:
            return
        if killable:
            # Python handlers run only between bytecodes. This one is in C and chains to the default: terminate.
            self._note = note.open("wb")
            faulthandler.register(signal.SIGVTALRM, self._note, all_threads=True, chain=True)
        else:
            self._handler = signal.signal(signal.SIGVTALRM, self._interrupt)

    def __enter__(self) -> None:
        if self._owns:
            self._active = True
            signal.setitimer(signal.ITIMER_VIRTUAL, self._seconds, _REPEAT_S)

    def __exit__(self, *_: object) -> None:
        self._active = False
        if self._owns:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def close(self) -> None:
        """Release the timer and restore the signal handler."""
        if not self._owns:
            return
        if self._killable:
            faulthandler.unregister(signal.SIGVTALRM)
            self._note.close()
        else:
            signal.signal(signal.SIGVTALRM, self._handler)
        self._owns = False
        _timer.release()

    def _interrupt(self, *_: object) -> None:
        if self._active:  # the signal may be handled after __exit__
            raise DecodeTimeout
