"""Read planned images ahead, from files and byte ranges, without blocking on a FIFO or a hanging mount."""

import os
import queue
import stat
import threading
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import NamedTuple

from dataprep.items import ByteRange, item_path, size_and_time
from dataprep.plan.store import PlannedItem
from schemas.images.policy import ImageRejected
from schemas.process.memory import demand_threads, is_shortage

READ_AHEAD_FILES = 8
READ_AHEAD_BYTES = 16 << 20


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


def wanted_item(base: str, item: PlannedItem, max_bytes: int) -> Wanted:
    """Return what to read for an item. `base` is the folder of SOURCE."""
    return Wanted(item_path(base, item.key, item.place), item, max_bytes)


def read_item(path: str | bytes, item: PlannedItem, max_bytes: int) -> bytes:
    """Return the bytes of a planned image.

    Raises ImageRejected if the image is too large, or its file or container is not the regular file that was planned.
    """
    if item.size > max_bytes:
        raise ImageRejected("too_large", f"it has {item.size} bytes, the limit is {max_bytes}")
    try:
        # Without O_NONBLOCK, opening a FIFO would block forever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ImageRejected("vanished", "it existed when the job was planned") from None
    except PermissionError:
        raise ImageRejected("permission_denied", "this user may not read it") from None
    except OSError as error:
        raise _unreadable(error) from None
    try:
        with open(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ImageRejected("not_a_regular_file", "it was a file when the job was planned")
            place = item.place
            planned = place.container.size if isinstance(place, ByteRange) else item.size
            if size_and_time(status) != (planned, item.mtime_ns):
                raise ImageRejected("changed", f"it had {planned} bytes when the job was planned, now {status.st_size}")
            if isinstance(place, ByteRange):
                return _read_range(descriptor, place, item.size)
            data = file.readall()
    except OSError as error:
        raise _unreadable(error) from None
    if len(data) != item.size:
        raise ImageRejected("changed", f"{len(data)} of its {item.size} bytes could be read")
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
