"""Cores, memory, open files and CPU instructions that this process may use, within affinity, control groups and limits.

Paths are read below `root`, so that tests can describe another host.
"""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

# Memory that the kernel reclaims before an allocation fails: cached file pages (after writing dirty pages) and its own
# caches. In version 1 groups, the total_ names include child groups. Source: cgroup-v2.rst, memory.stat.
_RECLAIMABLE = frozenset(
    ["inactive_file", "active_file", "slab_reclaimable", "total_inactive_file", "total_active_file"]
)
# oneDNN's names of the x86 levels in ascending order, and the flags of /proc/cpuinfo that each adds.
INSTRUCTION_SETS = {
    "SSE41": {"sse4_1"},
    "AVX": {"avx"},
    "AVX2": {"avx2"},
    "AVX512_CORE": {"avx512f", "avx512bw", "avx512vl", "avx512dq"},
}


def usable_cores(root: Path = Path("/")) -> int:
    """Return the number of cores that this process may use, limited by its CPU affinity and control groups."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for folder in _control_groups(root, "cpu"):
        for quota, period in _cpu_quotas(folder):
            cores = min(cores, max(1, quota // period))
    return cores


def host_cores() -> int:
    """Return the number of cores of the host, which is MindSpore's limit for num_parallel_workers.

    CPU affinity does not lower the limit: 2.10 accepts two workers under `taskset -c 0` on a host with two cores.
    """
    return os.cpu_count() or 1


def usable_memory(root: Path = Path("/")) -> int:
    """Return the bytes that this process and its children may still allocate, on the host and in its control groups.

    Cached file pages of a group count as free, since the kernel reclaims them first.
    """
    free = _available_memory(root)
    for folder in _control_groups(root, "memory"):
        for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            limit_bytes, used_bytes = _number(folder / limit), _number(folder / used)
            if limit_bytes is not None and used_bytes is not None:
                free = min(free, max(0, limit_bytes - max(0, used_bytes - _reclaimable(folder))))
    return free


def resident_memory(root: Path = Path("/")) -> int:
    """Return the resident memory of this process in bytes."""
    return int((root / "proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def max_open_files() -> int:
    """Return the hard limit of open files, up to which allow_open_files raises the soft limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return 1 << 20 if hard == resource.RLIM_INFINITY else hard


def allow_open_files(wanted: int) -> None:
    """Raise the soft limit of open files to `wanted`, at most to the hard limit; never lower it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, max_open_files()), hard))


def instruction_set(root: Path = Path("/")) -> str | None:
    """Return the widest of INSTRUCTION_SETS that the CPU has; None if the CPU is unknown or not x86."""
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
    """Yield the folders of this process's control group and its parents, for cgroup versions 2 and 1."""
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
    """Yield (quota, period) in microseconds if the group limits CPU time."""
    try:
        limit, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        quota, span = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
        if quota and span and quota > 0:
            yield quota, span
        return
    if limit != "max":
        yield int(limit), int(period)


def _reclaimable(folder: Path) -> int:
    """Return the bytes of the group's memory that the kernel can reclaim; 0 if unknown."""
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
    # CPU flags are the same on all cores of a host; ARM calls them Features.
    try:
        lines = (root / "proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set())
