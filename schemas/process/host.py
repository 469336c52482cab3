"""What this process may use of its host: cores, memory, open files and CPU instructions, as affinity, control groups
and limits allow.

The only place that reads these. Paths are read below `root`, so that tests can describe another host.
"""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

# What the kernel takes back before it refuses memory: cached file pages (dirty ones after writing them) and its own
# reclaimable caches. Version 1 groups count their children's under total_ names. Source: cgroup-v2.rst, memory.stat.
_RECLAIMABLE = frozenset(
    ["inactive_file", "active_file", "slab_reclaimable", "total_inactive_file", "total_active_file"]
)
# oneDNN's names of the x86 levels, from the narrowest up, and the flags of /proc/cpuinfo that each adds.
INSTRUCTION_SETS = {
    "SSE41": {"sse4_1"},
    "AVX": {"avx"},
    "AVX2": {"avx2"},
    "AVX512_CORE": {"avx512f", "avx512bw", "avx512vl", "avx512dq"},
}


def usable_cores(root: Path = Path("/")) -> int:
    """Return how many cores this process may keep busy: those of its affinity, or a control group's quota if lower."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for folder in _control_groups(root, "cpu"):
        for quota, period in _cpu_quotas(folder):
            cores = min(cores, max(1, quota // period))
    return cores


def host_cores() -> int:
    """Return the cores of the host, whatever this process may use of them: MindSpore's own limit for
    num_parallel_workers (measured on 2.10: two workers are accepted under `taskset -c 0` on a host of two).
    """
    return os.cpu_count() or 1


def usable_memory(root: Path = Path("/")) -> int:
    """Return the bytes that this process and its children may still allocate: those available on the host, or what
    its control groups leave. Cached file pages of a group count as free, since the kernel reclaims them first.
    """
    free = _available_memory(root)
    for folder in _control_groups(root, "memory"):
        for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            granted, taken = _number(folder / limit), _number(folder / used)
            if granted is not None and taken is not None:
                free = min(free, max(0, granted - max(0, taken - _reclaimable(folder))))
    return free


def resident_memory(root: Path = Path("/")) -> int:
    """Return the bytes of memory that this process holds."""
    return int((root / "proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def max_open_files() -> int:
    """Return how many descriptors this process may hold after allow_open_files: the hard limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return 1 << 20 if hard == resource.RLIM_INFINITY else hard


def allow_open_files(wanted: int) -> None:
    """Raise the soft limit of open files to `wanted`, but not above the hard limit. It is never lowered."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, max_open_files()), hard))


def instruction_set(root: Path = Path("/")) -> str | None:
    """Return the widest of INSTRUCTION_SETS that the CPU has; None when it is not x86 or the system does not tell."""
    flags = _cpu_flags(root)
    widest = None
    for name, needed in INSTRUCTION_SETS.items():
        if not needed <= flags:
            break
        widest = name
    return widest


def _available_memory(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def _control_groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's control group and of those above it, in version 2 and version 1."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / (controller if controllers else "")
        folder = top / path.strip("/")
        yield from (folder, *(parent for parent in folder.parents if parent.is_relative_to(top)))


def _cpu_quotas(folder: Path) -> Iterator[tuple[int, int]]:
    """Yield (quota, period) in microseconds where the group limits CPU time."""
    try:
        granted, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        quota, span = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
        if quota and span and quota > 0:
            yield quota, span
        return
    if granted != "max":
        yield int(granted), int(period)


def _reclaimable(folder: Path) -> int:
    """Return the bytes of the group's memory that the kernel can take back; 0 where it does not say."""
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    values = {name: int(value) for name, _, value in (line.partition(" ") for line in lines) if name in _RECLAIMABLE}
    totals = {name: value for name, value in values.items() if name.startswith("total_")}
    return sum((totals or values).values())


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # ValueError: "max", no limit
        return None


def _cpu_flags(root: Path) -> set[str]:
    # The same on all cores of a host; ARM calls them Features.
    try:
        lines = (root / "proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set())
