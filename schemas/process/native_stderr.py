"""Capture the output of C libraries on file descriptor 2, the only place where codecs report damage."""

import ctypes
import fcntl
import os
from types import TracebackType

STDERR = 2
# A codec may print a line per pixel; the first lines are sufficient.
MAX_BYTES = 64 << 10

_c_library = ctypes.CDLL(None)


class NativeStderr:
    """Context manager that redirects file descriptor 2 to a file in memory, which `take` reads.

    The redirection affects all threads of the process, so only one instance may be active. Python's
    sys.stderr is captured too.
    """

    def __init__(self) -> None:
        self._file = -1
        self._saved = -1

    def __enter__(self) -> "NativeStderr":
        _flush()
        try:
            self._saved = os.dup(STDERR)
        except OSError:  # descriptor 2 is closed: occupy its number, or the file below would get it
            nowhere = os.open(os.devnull, os.O_WRONLY)
            if nowhere != STDERR:
                os.dup2(nowhere, STDERR)
                os.close(nowhere)
        self._file = stderr_file()
        os.dup2(self._file, STDERR)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _flush()
        if self._saved >= 0:
            os.dup2(self._saved, STDERR)
            os.close(self._saved)
        else:
            os.close(STDERR)
        os.close(self._file)
        self._file = self._saved = -1

    def take(self) -> str:
        """Return the text printed since the last call, at most its first 64 KiB, after flushing C's buffers."""
        return take_text(self._file)


def stderr_file() -> int:
    """Return a new append-only file in memory to use as another process's descriptor 2; read it with take_text."""
    file = os.memfd_create("stderr", os.MFD_CLOEXEC)
    # After a truncation, the next write must go to the start through every copy of the descriptor.
    fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
    return file


def take_text(file: int) -> str:
    """Empty the file and return its text, at most the first 64 KiB. `file` may be this process's descriptor 2."""
    _flush()
    printed = os.pread(file, MAX_BYTES, 0)
    if printed:
        os.ftruncate(file, 0)
    return printed.decode("utf-8", "replace")


def _flush() -> None:
    """Flush C's stdio: stderr is unbuffered, other streams on descriptor 2 may not be."""
    _c_library.fflush(None)
