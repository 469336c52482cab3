"""Recognise a shortage of memory, and check that memory can be allocated."""

import errno
import mmap
import resource

# Upper bound for decoding: 18 bytes per pixel, measured over ten formats (JPEG 2000, WebP; others up to 9), and about
# 10 more for an image with alpha that is rotated and composited over a background.
BYTES_PER_PIXEL = 32
FIXED_BYTES = 64 << 20
# fork and thread creation fail with EAGAIN.
_ERRNOS = frozenset({errno.ENOMEM, errno.EAGAIN})
# RuntimeError of threading, ImportError of the dynamic loader, sqlite3.OperationalError.
_TEXTS = ("can't start new thread", "cannot allocate memory", "failed to map segment", "out of memory")
# glibc reserves an arena of 128 MiB per thread and releases half of it.
_ARENA_BYTES = 144 << 20
_STACK_BYTES = 8 << 20
_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux, not in the mmap module of Python 3.10


class MemoryShortage(Exception):
    """Memory could not be allocated while building `shard`, at the file `key` (None: between two files)."""

    def __init__(self, shard: str, key: str | None, detail: str) -> None:
        super().__init__(shard, key, detail)
        self.shard = shard
        self.key = key
        self.detail = detail


def is_shortage(error: BaseException) -> bool:
    """Return True if `error` reports that memory, a process or a thread could not be allocated."""
    if isinstance(error, MemoryError | MemoryShortage):
        return True
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _ERRNOS
    if any(text in str(error).lower() for text in _TEXTS):
        return True
    # NumPy replaces the message of the loader with its own guess.
    return isinstance(error, ImportError) and error.__cause__ is not None and is_shortage(error.__cause__)


def demand_room(pixels: int) -> None:
    """Raise MemoryError unless there is memory to decode an image of `pixels` pixels."""
    if not has_room(FIXED_BYTES + BYTES_PER_PIXEL * pixels):
        raise MemoryError


def demand_threads(count: int) -> None:
    """Raise MemoryError unless there is memory for `count` more threads.

    Call it before starting a thread: CPython's Thread.start waits forever if the new thread cannot allocate memory.
    """
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    if not has_room(count * (_ARENA_BYTES + (stack if stack != resource.RLIM_INFINITY else _STACK_BYTES))):
        raise MemoryError("can't start new thread")


def has_room(size: int) -> bool:
    """Return True if this process can allocate `size` bytes.

    Covers limits on the address space and the data segment (`ulimit -v`, `-d`; batch systems set them) and strict
    overcommit. No page is touched, so control groups are not covered: the kernel kills a process at their limit.
    """
    try:
        mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE).close()
    except (OSError, MemoryError, OverflowError):
        return False
    return True
