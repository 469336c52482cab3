"""What this process may use of the machine: cores and memory, as affinity and control groups limit them, open files,
and the CPU's vector instructions.
"""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

# oneDNN's names of the x86 levels, from the narrowest up, and the flags of /proc/cpuinfo that each adds.
INSTRUCTION_SETS = {
    "SSE41": {"sse4_1"},
    "AVX": {"avx"},
    "AVX2": {"avx2"},
    "AVX512_CORE": {"avx512f", "avx512bw", "avx512vl", "avx512dq"},
}


def instruction_set(root: Path = Path("/")) -> str | None:
    """The widest of INSTRUCTION_SETS that the CPU has; None when it is not x86 or the system does not tell."""
    flags = _cpu_flags(root)
    widest = None
    for name, needed in INSTRUCTION_SETS.items():
        if not needed <= flags:
            break
        widest = name
    return widest


def _cpu_flags(root: Path) -> set[str]:
    # The same on all cores of a host; ARM calls them Features.
    try:
        lines = (root / "proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set())


def usable_cores(root: Path = Path("/")) -> int:
    """Cores that this process may keep busy: those of its affinity, or fewer where a control group grants less time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for folder in _groups(root, "cpu"):
        for quota, period in _quotas(folder):
            cores = min(cores, max(1, quota // period))
    return cores


def usable_memory(root: Path = Path("/")) -> int:
    """Bytes that this process may still take: what is available, or left in its control group."""
    free = _available(root)
    for folder in _groups(root, "memory"):
        for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            granted, taken = _number(folder / limit), _number(folder / used)
            if granted is not None and taken is not None:
                free = min(free, max(0, granted - taken))
    return free


def most_open_files() -> int:
    """Descriptors that this process may hold once it has asked for them: the hard limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return 1 << 20 if hard == resource.RLIM_INFINITY else hard


def resident_memory(root: Path = Path("/")) -> int:
    """Bytes of memory that this process holds."""
    return int((root / "proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def allow_open_files(wanted: int) -> None:
    """Raise the soft limit of open files to `wanted`, no further than the hard one. It is never lowered."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, most_open_files()), hard))


def _available(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def _groups(root: Path, controller: str) -> Iterator[Path]:
    # The folders of this process's control group and those above it, in version 2 and version 1.
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


def _quotas(folder: Path) -> Iterator[tuple[int, int]]:
    # (microseconds granted, of so many) where the group is limited.
    try:
        granted, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        quota, span = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
        if quota and span and quota > 0:
            yield quota, span
        return
    if granted != "max":
        yield int(granted), int(period)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # ValueError: "max", no limit
        return None
