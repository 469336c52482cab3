"""The storage of a dataset: its file system, and the rate of rows that are not cached."""

import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

NETWORK = frozenset({
    "nfs", "nfs3", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs",
    "orangefs", "pvfs2", "ocfs2", "gfs2", "virtiofs",
})  # fmt: skip
PAGE = os.sysconf("SC_PAGE_SIZE")
SEED = 0  # the same offsets in both passes


@dataclass(frozen=True)
class Storage:
    """File system type (`kind`), and rows per second from storage and from the cache, or None if nothing was read."""

    kind: str
    network: bool
    cold_rows_per_s: float | None
    cached_rows_per_s: float | None


def file_system(path: Path, mounts: str) -> tuple[str, bool]:
    """Return the file system type of `path`, and True for a network file system. `mounts` is /proc/mounts."""
    best, kind = "", "unknown"
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = fields[1].encode().decode("unicode_escape")  # a space is written as \040
        inside = path == Path(point) or Path(point) in path.parents
        if inside and len(point) >= len(best):  # of several file systems on one mount point, the last is visible
            best, kind = point, fields[2]
    return kind, kind in NETWORK or (kind.startswith("fuse.") and kind not in ("fuse.lxcfs", "fuse.snapfuse"))


def bytes_from_storage(counters: Path = Path("/proc/self/io")) -> int:
    """Return the bytes that this process has read from storage, not from the cache, or 0 if unknown."""
    try:
        lines = counters.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("read_bytes:")), 0)


def measure_storage(
    folder: Path, files: Sequence[str], row_bytes: int, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> Storage:
    """Read blocks of `row_bytes` at random offsets, for at most `seconds`, and then the same blocks again.

    Each block is dropped from the cache before the first read. The rest of the cache is kept, because a run starts with
    the cache that the check of the files leaves. On a file system in memory both rates are equal.
    """
    try:
        mounts = Path("/proc/mounts").read_text()
    except OSError:
        mounts = ""
    kind, network = file_system(folder, mounts)
    draw = random.Random(SEED)
    opened = [os.open(folder / name, os.O_RDONLY) for name in draw.sample(files, min(8, len(files)))]
    try:
        sizes = [max(1, os.fstat(descriptor).st_size - row_bytes) for descriptor in opened]
        picked = [draw.randrange(len(opened)) for _ in range(512)]
        offsets = [(opened[number], draw.randrange(sizes[number])) for number in picked]
        count, cold = _read(offsets, row_bytes, seconds, clock, cold=True)
        _, cached = _read(offsets[:count], row_bytes, seconds, clock, cold=False)
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return Storage(kind, network, cold, cached)


def _read(
    offsets: Sequence[tuple[int, int]], row_bytes: int, seconds: float, clock: Callable[[], float], cold: bool
) -> tuple[int, float | None]:
    began = clock()
    count = 0
    for descriptor, offset in offsets:
        if clock() - began >= seconds:
            break
        if cold:
            _drop_block(descriptor, offset, row_bytes)
        os.pread(descriptor, row_bytes, offset)
        count += 1
    spent = clock() - began
    return count, count / spent if count and spent > 0 else None


def drop_from_cache(path: Path) -> None:
    """Flush a file to disk and ask the system to drop it from the cache."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _drop_block(descriptor: int, offset: int, size: int) -> None:
    first = offset - offset % PAGE  # partly covered pages would stay in the cache
    os.posix_fadvise(descriptor, first, -(-(offset + size) // PAGE) * PAGE - first, os.POSIX_FADV_DONTNEED)
