"""Stop signals: recorded on arrival, and handled after the current step or batch."""

import os
import signal
import threading
from collections.abc import Callable

from schemas.process.stop_signals import exit_code, stop_signals
from trainer.errors import Interrupted


class StopSignals:
    """Context manager that records the first stop signal in `signum`. A second signal ends the process at once.

    schemas.process.stop_signals lists the signals. A thread waits for the signals; all other threads block them. A
    signal handler does not work: each graph run installs MindSpore's handler, which turns SIGINT into SIGTERM (measured
    on 2.10). Enter the context before importing MindSpore and NumPy: their threads inherit the signal mask. `tell` is
    called with a message when the first signal arrives.
    """

    def __init__(self, tell: Callable[[str], None] = lambda text: None) -> None:
        self.signum: int | None = None
        self.tell = tell
        self._leaving = False

    def __enter__(self) -> "StopSignals":
        self._signals = stop_signals()
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        self._thread = threading.Thread(target=self._wait, name="stop-signals", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._leaving = True
        if self._thread.ident is not None:
            signal.pthread_kill(self._thread.ident, signal.SIGTERM)  # wakes only the thread
        self._thread.join()
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def check(self) -> None:
        """Raise Interrupted if a signal was received."""
        if self.signum is not None:
            raise Interrupted(self.signum, None)

    def _wait(self) -> None:
        while True:
            signum = signal.sigwait(self._signals)
            if self._leaving:
                return
            if self.signum is not None:
                os._exit(exit_code(signum))
            self.signum = signum
            self.tell(f"{signal.Signals(signum).name}: stopping after this step; repeat to stop at once")
