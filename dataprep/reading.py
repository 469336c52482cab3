"""Reads a planned file, and never waits for one: not for a FIFO, and not for a mount that has stalled."""

import os
import queue
import stat
import threading
from collections.abc import Callable
from typing import Any

from dataprep.images import Refusal
from dataprep.plan import PlannedItem


class Reader:
    """Reads files in a thread of its own, so that one that does not answer costs its deadline and not the job.

    The thread that waits for a stalled file is left behind, and the next file gets a new one.
    """

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._start()

    def _start(self) -> None:
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._read: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=_serve, args=(self._asked, self._read), daemon=True).start()

    def close(self) -> None:
        """Let the thread end."""
        self._asked.put(None)

    def read(self, path: str, item: PlannedItem, max_bytes: int) -> bytes:
        """The bytes of a planned file; raises Refusal when it is not the regular file that was planned."""
        if item.size > max_bytes:
            raise Refusal("too_large", f"it has {item.size} bytes, the limit is {max_bytes}")
        self._asked.put(lambda: read_item(path, item))
        try:
            result = self._read.get(timeout=self._deadline_s)
        except queue.Empty:
            self.close()
            self._start()
            raise Refusal("stalled", f"it could not be read within {self._deadline_s:g} s") from None
        if isinstance(result, BaseException):
            raise result
        data: bytes = result
        return data


def _serve(asked: "queue.SimpleQueue[Callable[[], bytes] | None]", read: "queue.SimpleQueue[Any]") -> None:
    while task := asked.get():
        try:
            read.put(task())
        except BaseException as error:
            read.put(error)


def read_item(path: str, item: PlannedItem) -> bytes:
    """The bytes of a planned file; raises Refusal when it is not the regular file that was planned."""
    try:
        # Without O_NONBLOCK a FIFO that took the file's place would block for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Refusal("vanished", "it was there when the job was planned") from None
    except PermissionError:
        raise Refusal("permission_denied", "this user may not read it") from None
    except OSError as error:
        raise Refusal("unreadable", error.strerror or str(error)) from None
    with open(descriptor, "rb", buffering=0) as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise Refusal("not_a_regular_file", "it was a file when the job was planned")
        if (found.st_size, found.st_mtime_ns) != (item.size, item.mtime_ns):
            raise Refusal("changed", f"it had {item.size} bytes when the job was planned, now {found.st_size}")
        try:
            data = file.readall()
        except OSError as error:
            raise Refusal("unreadable", error.strerror or str(error)) from None
    if len(data) != item.size:
        raise Refusal("changed", f"{len(data)} of its {item.size} bytes could be read")
    return data
