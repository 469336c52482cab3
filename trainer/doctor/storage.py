"""What lies under a dataset: which file system, and how fast it gives rows that are in no cache."""

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
SEED = 0  # the same places in both passes


@dataclass(frozen=True)
class Storage:
    """Rows a second at first, and again from the cache; None where nothing could be read in time."""

    kind: str
    network: bool
    cold_rows_per_s: float | None
    cached_rows_per_s: float | None


def file_system(path: Path, mounts: str) -> tuple[str, bool]:
    """The kind of file system that holds `path`, and whether it is across a network; `mounts` as in /proc/mounts."""
    best, kind = "", "unknown"
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = fields[1].encode().decode("unicode_escape")  # a space stands there as \040
        inside = path == Path(point) or Path(point) in path.parents
        if inside and len(point) >= len(best):  # of several on one point the last is seen
            best, kind = point, fields[2]
    return kind, kind in NETWORK or (kind.startswith("fuse.") and kind not in ("fuse.lxcfs", "fuse.snapfuse"))


def bytes_from_storage(counters: Path = Path("/proc/self/io")) -> int:
    """Return what this process has read from the storage so far, without what came from the cache; 0 if unknown."""
    try:
        lines = counters.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("read_bytes:")), 0)


def look_at_storage(
    folder: Path, files: Sequence[str], row_bytes: int, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> Storage:
    """Read pieces as large as a row at random places, as training does, for at most `seconds`; the same ones again.

    The system is asked to forget each piece just before it is first read: no more than that, since a run begins with
    what the check of the files has left in the cache. Where it does not (a file system of memory), both are the same.
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
        places = [(opened[number], draw.randrange(sizes[number])) for number in picked]
        count, cold = _read(places, row_bytes, seconds, clock, cold=True)
        _, cached = _read(places[:count], row_bytes, seconds, clock, cold=False)
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return Storage(kind, network, cold, cached)


def _read(
    places: Sequence[tuple[int, int]], row_bytes: int, seconds: float, clock: Callable[[], float], cold: bool
) -> tuple[int, float | None]:
    began = clock()
    count = 0
    for descriptor, place in places:
        if clock() - began >= seconds:
            break
        if cold:
            _forget(descriptor, place, row_bytes)
        os.pread(descriptor, row_bytes, place)
        count += 1
    spent = clock() - began
    return count, count / spent if count and spent > 0 else None


def forget(path: Path) -> None:
    """Write a file to its disk and ask the system to drop it from the cache."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _forget(descriptor: int, place: int, size: int) -> None:
    first = place - place % PAGE  # pages that are covered in part only would stay
    os.posix_fadvise(descriptor, first, -(-(place + size) // PAGE) * PAGE - first, os.POSIX_FADV_DONTNEED)
