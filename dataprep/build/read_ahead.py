"""Read planned files ahead without blocking on a FIFO or a hanging mount."""

import os
import queue
import stat
import threading
from collections import deque
from collections.abc import Generator, Iterable
from typing import NamedTuple

from dataprep.items import size_and_time
from dataprep.plan.store import PlannedItem
from schemas.images.policy import ImageRejected
from schemas.process.memory import demand_threads, is_shortage

READ_AHEAD_FILES = 8
READ_AHEAD_BYTES = 16 << 20


class Wanted(NamedTuple):
    """A file to read: its path, its planned item, and its maximum size in bytes."""

    path: str | bytes
    item: PlannedItem
    max_bytes: int


def read_ahead(
    wanted: Iterable[Wanted], deadline_s: float
) -> Generator[tuple[PlannedItem, bytes | ImageRejected], None, None]:
    """Yield each item in order, with its bytes or with a ImageRejected if it is not the regular file that was planned.

    A thread reads ahead while images are decoded, which hides the latency of a disk or network. A file that takes
    longer than `deadline_s` seconds is rejected and its thread is abandoned. At most READ_AHEAD_BYTES are read ahead,
    not counting one file.
    """
    source = iter(wanted)
    ahead: deque[Wanted] = deque()
    asked, answers = _start(ahead)
    try:
        while True:
            while _has_space(ahead) and (following := next(source, None)):
                ahead.append(following)
                asked.put(following)
            if not ahead:
                return
            try:
                result: bytes | BaseException = answers.get(timeout=deadline_s)
            except queue.Empty:
                result = ImageRejected("stalled", f"it could not be read within {deadline_s:g} s")
                asked.put(None)
                asked, answers = _start(list(ahead)[1:])
            if isinstance(result, BaseException) and not isinstance(result, ImageRejected):
                raise result
            yield ahead.popleft().item, result
    finally:
        asked.put(None)


def _has_space(ahead: "deque[Wanted]") -> bool:
    return len(ahead) < READ_AHEAD_FILES and sum(wanted.item.size for wanted in ahead) < READ_AHEAD_BYTES


def _start(
    pending: Iterable[Wanted],
) -> "tuple[queue.SimpleQueue[Wanted | None], queue.SimpleQueue[bytes | BaseException]]":
    asked: queue.SimpleQueue[Wanted | None] = queue.SimpleQueue()
    answers: queue.SimpleQueue[bytes | BaseException] = queue.SimpleQueue()
    for wanted in pending:
        asked.put(wanted)
    demand_threads(1)
    threading.Thread(target=_serve, args=(asked, answers), daemon=True).start()
    return asked, answers


def _serve(asked: "queue.SimpleQueue[Wanted | None]", answers: "queue.SimpleQueue[bytes | BaseException]") -> None:
    while wanted := asked.get():
        try:
            answers.put(read_item(wanted.path, wanted.item, wanted.max_bytes))
        except BaseException as error:
            answers.put(error)


def read_item(path: str | bytes, item: PlannedItem, max_bytes: int) -> bytes:
    """Return the bytes of a planned file. Raise ImageRejected if it is too large or not the planned regular file."""
    if item.size > max_bytes:
        raise ImageRejected("too_large", f"it has {item.size} bytes; the limit is {max_bytes}")
    try:
        # Without O_NONBLOCK, opening a FIFO would block forever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ImageRejected("vanished", "it no longer exists, but did when the job was planned") from None
    except PermissionError:
        raise ImageRejected("permission_denied", "this user has no permission to read it") from None
    except OSError as error:
        raise _unreadable(error) from None
    try:
        with open(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ImageRejected("not_a_regular_file", "it is no longer the regular file that was planned")
            if size_and_time(status) != (item.size, item.mtime_ns):
                raise ImageRejected(
                    "changed", f"it had {item.size} bytes when the job was planned, and now has {status.st_size}"
                )
            data = file.readall()
    except OSError as error:
        raise _unreadable(error) from None
    if len(data) != item.size:
        raise ImageRejected("changed", f"only {len(data)} of its {item.size} bytes could be read")
    return data


def _unreadable(error: OSError) -> Exception:
    """Return an ImageRejected, or MemoryError if memory is short on this machine."""
    return (
        MemoryError(error.strerror) if is_shortage(error) else ImageRejected("unreadable", error.strerror or str(error))
    )
