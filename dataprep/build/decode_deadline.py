"""Limits the CPU time that decoding one image may take, also where a codec spins in C and holds the interpreter's lock.

CPU time is counted in user mode (ITIMER_VIRTUAL), so a worker that was stopped, starved or swapped out is not blamed.
"""

import faulthandler
import signal
import threading
from pathlib import Path
from typing import Any

# Between two attempts to interrupt Python code: an exception within a destructor is lost.
_REPEAT_S = 1.0
_timer = threading.Lock()  # a process has one such timer


class DecodeTimeout(BaseException):
    """Decoding has taken too long. No Exception, so that no handler within Pillow stops it."""


class DecodeDeadline:
    """A context manager around the decoding of each image, and an owner of this process's CPU timer until `close`.

    `killable`: the kernel ends this process when an image takes longer than `seconds`, after `note` has got the stack.
    Otherwise (the serial engine) DecodeTimeout is raised as soon as the codec returns to Python. There is no limit
    where it cannot be had: for a second thread that builds in this process, and for a thread other than the main one
    that may not be killed.
    """

    def __init__(self, seconds: float, note: Path, killable: bool) -> None:
        self._seconds = seconds
        self._killable = killable
        self._at_work = False
        self._owns = (killable or threading.current_thread() is threading.main_thread()) and _timer.acquire(False)
        if not self._owns:
            return
        if killable:
            # Python's own handlers run between bytecodes only; this one is C, and chains to the default: terminate.
            self._note = note.open("wb")
            faulthandler.register(signal.SIGVTALRM, self._note, all_threads=True, chain=True)
        else:
            self._handler = signal.signal(signal.SIGVTALRM, self._interrupt)

    def __enter__(self) -> None:
        if self._owns:
            self._at_work = True
            signal.setitimer(signal.ITIMER_VIRTUAL, self._seconds, _REPEAT_S)

    def __exit__(self, *_: object) -> None:
        self._at_work = False
        if self._owns:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def close(self) -> None:
        """Give the timer and its signal back."""
        if not self._owns:
            return
        if self._killable:
            faulthandler.unregister(signal.SIGVTALRM)
            self._note.close()
        else:
            signal.signal(signal.SIGVTALRM, self._handler)
        self._owns = False
        _timer.release()

    def _interrupt(self, *_: Any) -> None:
        if self._at_work:  # not once it has been left: the signal may be handled late
            raise DecodeTimeout
