"""Cores by affinity and quota, memory by control group, open files by limits."""

import os
import resource
from pathlib import Path

import pytest

from schemas.process import host

GIB = 1 << 30
AVAILABLE = "MemTotal: 99 kB\nMemAvailable:    8388608 kB\n"


def rooted(tmp_path: Path, cgroup: str, **files: str) -> Path:
    """A root folder with these control group files; `__` in a name is a slash."""
    contents = {"proc/self/cgroup": cgroup, "proc/meminfo": AVAILABLE}
    contents |= {f"sys/fs/cgroup/{name.replace('__', '/')}": text for name, text in files.items()}
    for name, text in contents.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_without_limits_the_affinity_counts_and_all_available_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 5})
    root = rooted(tmp_path, "0::/\n")
    assert host.usable_cores(root) == 3
    assert host.usable_memory(root) == 8 * GIB


def test_a_quota_of_the_group_or_one_above_it_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    root = rooted(tmp_path, "0::/job/step\n", **{"job__cpu.max": "450000 100000", "job__step__cpu.max": "max 100000"})
    assert host.usable_cores(root) == 4


def test_half_a_core_is_one_worker(tmp_path: Path) -> None:
    assert host.usable_cores(rooted(tmp_path, "0::/\n", **{"cpu.max": "50000 100000"})) == 1


def test_version_1_groups_limit_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    groups = {
        "cpu__box__cpu.cfs_quota_us": "200000",
        "cpu__box__cpu.cfs_period_us": "100000",
        "memory__box__memory.limit_in_bytes": str(2 * GIB),
        "memory__box__memory.usage_in_bytes": str(GIB),
    }
    root = rooted(tmp_path, "4:memory:/box\n3:cpu,cpuacct:/box\n", **groups)
    assert host.usable_cores(root) == 2
    assert host.usable_memory(root) == GIB


def test_memory_left_in_the_group_limits(tmp_path: Path) -> None:
    files = {"memory.max": str(3 * GIB), "memory.current": str(2 * GIB)}
    assert host.usable_memory(rooted(tmp_path, "0::/\n", **files)) == GIB


def test_cached_file_pages_of_a_group_count_as_free(tmp_path: Path) -> None:
    stat = f"anon {GIB}\nfile {GIB}\ninactive_file {GIB // 2}\nactive_file {GIB // 4}\nslab_reclaimable {GIB // 4}\n"
    files = {"memory.max": str(2 * GIB), "memory.current": str(2 * GIB), "memory.stat": stat}
    assert host.usable_memory(rooted(tmp_path, "0::/\n", **files)) == GIB


def test_cached_file_pages_of_a_version_1_group_and_its_children_count_as_free(tmp_path: Path) -> None:
    stat = f"inactive_file 0\nactive_file 7\ntotal_inactive_file {GIB}\ntotal_active_file {GIB // 2}\n"
    files = {
        "memory__box__memory.limit_in_bytes": str(2 * GIB),
        "memory__box__memory.usage_in_bytes": str(2 * GIB),
        "memory__box__memory.stat": stat,
    }
    assert host.usable_memory(rooted(tmp_path, "4:memory:/box\n", **files)) == 3 * GIB // 2


def test_soft_limit_of_open_files_is_raised_and_never_lowered() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        host.allow_open_files(300)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 300
        host.allow_open_files(100)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 300
        host.allow_open_files(1 << 40)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(host.max_open_files(), before[1]), before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("cpuinfo", "widest"),
    [
        ("flags\t\t: fpu sse4_1 avx avx2 avx512f avx512dq avx512cd avx512bw avx512vl\n", "AVX512_CORE"),
        ("flags\t\t: fpu sse4_1 avx avx2 avx512f avx512cd avx512er\n", "AVX2"),  # Xeon Phi
        ("processor: 0\nflags\t: fpu sse4_1 avx avx2 avx_vnni\n\nprocessor: 1\nflags\t: fpu\n", "AVX2"),
        ("flags\t\t: fpu sse4_1 avx\n", "AVX"),
        ("flags\t\t: fpu sse4_1 avx2\n", "SSE41"),  # a hypervisor that hides a level hides what rests on it
        ("flags\t\t: fpu sse2\n", None),
        ("processor: 0\nFeatures\t: fp asimd sve\n", None),
        ("", None),
    ],
)
def test_widest_instruction_set_is_that_of_all_flags_up_to_it(cpuinfo: str, widest: str | None, tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text(cpuinfo)
    assert host.instruction_set(tmp_path) == widest


def test_machine_without_cpuinfo_has_no_known_instruction_set(tmp_path: Path) -> None:
    assert host.instruction_set(tmp_path) is None
