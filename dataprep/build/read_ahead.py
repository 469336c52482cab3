"""Read planned images ahead, from files and byte ranges, without blocking on a FIFO or a hanging mount."""

import os
import queue
import stat
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from typing import NamedTuple

from dataprep.items import ByteRange, item_path, size_and_time
from dataprep.plan.store import PlannedItem
from dataprep.storage.remote import is_remote, read_object
from schemas.images.policy import ImageRejected
from schemas.process.memory import demand_threads, is_shortage

READ_AHEAD_FILES = 8
READ_AHEAD_BYTES = 16 << 20
# Storage with latency: after so many reads that the build had to wait for this long, one more thread reads ahead.
SLOW_READ_S = 0.002
SLOW_READS = 4
MOST_THREADS = 16
# Pauses before another attempt to read a file, for errors that go away, such as those of a network.
RETRY_PAUSES_S = (0.05, 0.2, 1.0)


def _inflate(data: bytes, size: int) -> bytes:
    """Return the decompressed data, at most one byte more than `size`: the real size may be a thousand times that."""
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    inflated = stream.decompress(data, size + 1)
    if not stream.eof and len(inflated) <= size:
        raise zlib.error("incomplete stream")
    return inflated


def _stored(data: bytes, _size: int) -> bytes:
    return data


# Encodings of a byte range: functions of its data and its decoded size. `deflate` is that of ZIP: without a header.
CODECS: dict[str, Callable[[bytes, int], bytes]] = {"stored": _stored, "deflate": _inflate}


class Wanted(NamedTuple):
    """An image to read: the path of its file or container, its planned item, and its maximum size in bytes."""

    path: str | bytes
    item: PlannedItem
    max_bytes: int


def read_ahead(
    wanted: Iterable[Wanted], deadline_s: float
) -> Generator[tuple[PlannedItem, bytes | ImageRejected], None, None]:
    """Yield each item in order, with its bytes or with an ImageRejected if it is not the regular file that was planned.

    Threads read ahead while images are decoded, which hides the latency of a disk or network: one, and up to
    MOST_THREADS while the build waits for slow reads. A file that takes longer than `deadline_s` seconds is rejected
    and its thread is abandoned. At most READ_AHEAD_BYTES are read ahead, not counting one file.
    """
    source = iter(wanted)
    readers = _Readers()
    ahead: deque[tuple[Wanted, _Answer]] = deque()
    try:
        while True:
            while readers.have_space(ahead) and (following := next(source, None)):
                ahead.append((following, readers.ask(following)))
            if not ahead:
                return
            (one, answer) = ahead[0]
            result = readers.wait(answer, deadline_s)
            if isinstance(result, BaseException) and not isinstance(result, ImageRejected):
                raise result
            yield one.item, result
            ahead.popleft()
    finally:
        readers.stop()


_Answer = queue.SimpleQueue[bytes | BaseException]


class _Readers:
    """Threads that read files. A thread that hangs in a read is abandoned and replaced."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[tuple[Wanted, _Answer] | None] = queue.SimpleQueue()
        self.threads = 0
        self._slow = 0
        self._start_thread()

    def have_space(self, ahead: "deque[tuple[Wanted, _Answer]]") -> bool:
        """Return True if one more file may be read ahead."""
        files = max(READ_AHEAD_FILES, 2 * self.threads)
        return len(ahead) < files and sum(wanted.item.size for wanted, _ in ahead) < READ_AHEAD_BYTES

    def ask(self, wanted: Wanted) -> _Answer:
        """Read a file in a thread; return the queue that will have its bytes or an error."""
        answer: _Answer = queue.SimpleQueue()
        self._requests.put((wanted, answer))
        return answer

    def wait(self, answer: _Answer, deadline_s: float) -> bytes | BaseException:
        """Return an answer, an ImageRejected after the deadline. Start a thread if reads are slow."""
        with suppress(queue.Empty):
            return answer.get_nowait()
        started = time.monotonic()
        try:
            result = answer.get(timeout=deadline_s)
        except queue.Empty:
            self._start_thread()
            self.threads -= 1
            return ImageRejected("stalled", f"it could not be read within {deadline_s:g} s")
        self._slow += time.monotonic() - started > SLOW_READ_S
        if self._slow >= SLOW_READS and self.threads < MOST_THREADS:
            self._slow = 0
            self._start_thread()
        return result

    def stop(self) -> None:
        """End the threads after their current reads."""
        for _ in range(self.threads):
            self._requests.put(None)

    def _start_thread(self) -> None:
        demand_threads(1)
        threading.Thread(target=_serve, args=(self._requests,), daemon=True).start()
        self.threads += 1


def _serve(requests: "queue.SimpleQueue[tuple[Wanted, _Answer] | None]") -> None:
    while request := requests.get():
        wanted, answer = request
        try:
            answer.put(_patiently(wanted))
        except BaseException as error:
            answer.put(error)


def _patiently(wanted: Wanted) -> bytes:
    """Return read_item, tried again after errors that go away."""
    for pause_s in RETRY_PAUSES_S:
        try:
            return read_item(*wanted)
        except ImageRejected as error:
            if error.reason != "unreadable":
                raise
        time.sleep(pause_s)
    return read_item(*wanted)


def wanted_item(base: str, item: PlannedItem, max_bytes: int) -> Wanted:
    """Return what to read for an item. `base` is the folder of SOURCE."""
    return Wanted(item_path(base, item.key, item.place), item, max_bytes)


def read_item(path: str | bytes, item: PlannedItem, max_bytes: int) -> bytes:
    """Return the bytes of a planned image.

    Raises ImageRejected if the image is too large, or its file or container is not the regular file that was planned.
    """
    if item.size > max_bytes:
        raise ImageRejected("too_large", f"it has {item.size} bytes; the limit is {max_bytes}")
    if is_remote(path):
        return _read_object(path, item)
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
            place = item.place
            planned = place.container.size if isinstance(place, ByteRange) else item.size
            if size_and_time(status) != (planned, item.mtime_ns):
                raise ImageRejected(
                    "changed", f"it had {planned} bytes when the job was planned, and now has {status.st_size}"
                )
            if isinstance(place, ByteRange):
                return _read_range(descriptor, place, item.size)
            data = file.readall()
    except OSError as error:
        raise _unreadable(error) from None
    if len(data) != item.size:
        raise ImageRejected("changed", f"only {len(data)} of its {item.size} bytes could be read")
    return data


def _read_object(path: str | bytes, item: PlannedItem) -> bytes:
    """Return an object of an object store.

    Raises ImageRejected if it cannot be read, or has another size than planned.
    """
    try:
        data = read_object(path)
    except FileNotFoundError:
        raise ImageRejected("vanished", "it existed when the job was planned") from None
    except PermissionError as error:
        raise ImageRejected("permission_denied", str(error)) from None
    except OSError as error:
        raise _unreadable(error) from None
    if len(data) != item.size:
        raise ImageRejected("changed", f"it had {item.size} bytes when the job was planned, now {len(data)}")
    return data


def _read_range(descriptor: int, place: ByteRange, size: int) -> bytes:
    """Return the decoded bytes of a range, `size` of them.

    Raises ImageRejected if the container ends before the range, or its data is damaged.
    """
    data = bytearray()
    while len(data) < place.length and (
        piece := os.pread(descriptor, place.length - len(data), place.offset + len(data))
    ):
        data += piece
    if len(data) != place.length:
        raise ImageRejected("truncated", f"{len(data)} of its {place.length} bytes are in {place.container.path}")
    try:
        decoded = CODECS[place.codec](bytes(data), size)
    except zlib.error as error:
        raise ImageRejected("corrupt", f"its compressed data in {place.container.path} is damaged ({error})") from None
    if len(decoded) != size:
        has = f"more than {size}" if len(decoded) > size else f"{len(decoded)}"
        raise ImageRejected("corrupt", f"it has {has} bytes, {place.container.path} announces {size}")
    if place.checksum is not None and zlib.crc32(decoded) != place.checksum:
        raise ImageRejected("corrupt", f"its checksum differs from the one in {place.container.path}")
    return decoded


def _unreadable(error: OSError) -> Exception:
    """Return an ImageRejected, or MemoryError if memory is short on this machine."""
    return (
        MemoryError(error.strerror) if is_shortage(error) else ImageRejected("unreadable", error.strerror or str(error))
    )
