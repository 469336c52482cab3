"""Reads a planned file, and never waits for one: not for a FIFO, and not for a mount that has stalled."""

import os
import queue
import stat
import threading
from collections import deque
from collections.abc import Generator, Iterable
from typing import Any, NamedTuple

from dataprep.items import size_and_time
from dataprep.plan.store import PlannedItem
from schemas.images.policy import Refusal
from schemas.process.memory import demand_threads, is_shortage

READ_AHEAD_FILES = 8
READ_AHEAD_BYTES = 16 << 20


class Wanted(NamedTuple):
    """A file to read: where it is, what was planned, and how many bytes it may have."""

    path: str | bytes
    item: PlannedItem
    max_bytes: int


def read_ahead(
    wanted: Iterable[Wanted], deadline_s: float
) -> Generator[tuple[PlannedItem, bytes | Refusal], None, None]:
    """The bytes of each file, in order, or why it is refused: it is no longer the regular file that was planned.

    Files are read in a thread, ahead of the one at work: so a disk's or a network's delay costs nothing while images
    are decoded, and a file that does not answer costs its deadline and not the job. At most READ_AHEAD_BYTES are read
    ahead, beside one file. The thread that waits for a stalled file is left behind.
    """
    source = iter(wanted)
    ahead: deque[Wanted] = deque()
    asked, answers = _start(ahead)
    try:
        while True:
            while _room(ahead) and (following := next(source, None)):
                ahead.append(following)
                asked.put(following)
            if not ahead:
                return
            try:
                result = answers.get(timeout=deadline_s)
            except queue.Empty:
                result = Refusal("stalled", f"it could not be read within {deadline_s:g} s")
                asked.put(None)
                asked, answers = _start(list(ahead)[1:])
            if isinstance(result, BaseException) and not isinstance(result, Refusal):
                raise result
            yield ahead.popleft().item, result
    finally:
        asked.put(None)


def _room(ahead: "deque[Wanted]") -> bool:
    return len(ahead) < READ_AHEAD_FILES and sum(wanted.item.size for wanted in ahead) < READ_AHEAD_BYTES


def _start(pending: Iterable[Wanted]) -> "tuple[queue.SimpleQueue[Wanted | None], queue.SimpleQueue[Any]]":
    asked: queue.SimpleQueue[Wanted | None] = queue.SimpleQueue()
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for wanted in pending:
        asked.put(wanted)
    demand_threads(1)
    threading.Thread(target=_serve, args=(asked, answers), daemon=True).start()
    return asked, answers


def _serve(asked: "queue.SimpleQueue[Wanted | None]", answers: "queue.SimpleQueue[Any]") -> None:
    while wanted := asked.get():
        try:
            answers.put(read_item(wanted.path, wanted.item, wanted.max_bytes))
        except BaseException as error:
            answers.put(error)


def read_item(path: str | bytes, item: PlannedItem, max_bytes: int) -> bytes:
    """The bytes of a planned file; raises Refusal when it is not the regular file that was planned, or too large."""
    if item.size > max_bytes:
        raise Refusal("too_large", f"it has {item.size} bytes, the limit is {max_bytes}")
    try:
        # Without O_NONBLOCK a FIFO that took the file's place would block for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Refusal("vanished", "it was there when the job was planned") from None
    except PermissionError:
        raise Refusal("permission_denied", "this user may not read it") from None
    except OSError as error:
        raise _unreadable(error) from None
    try:
        with open(descriptor, "rb", buffering=0) as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise Refusal("not_a_regular_file", "it was a file when the job was planned")
            if size_and_time(found) != (item.size, item.mtime_ns):
                raise Refusal("changed", f"it had {item.size} bytes when the job was planned, now {found.st_size}")
            data = file.readall()
    except OSError as error:
        raise _unreadable(error) from None
    if len(data) != item.size:
        raise Refusal("changed", f"{len(data)} of its {item.size} bytes could be read")
    return data


def _unreadable(error: OSError) -> Exception:
    """The reason, unless it is the machine that lacks memory."""
    return MemoryError(error.strerror) if is_shortage(error) else Refusal("unreadable", error.strerror or str(error))
