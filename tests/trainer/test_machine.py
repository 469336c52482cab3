import os
import resource
from pathlib import Path

import pytest

from trainer.machine import allow_open_files, instruction_set, most_open_files, usable_cores, usable_memory


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    1000 kB\n", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_cores_are_those_of_the_affinity_where_nothing_else_limits(tmp_path: Path) -> None:
    assert usable_cores(write(tmp_path, {})) == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    "files",
    [
        {"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "150000 100000\n"},
        {"proc/self/cgroup": "0::/job/task\n", "sys/fs/cgroup/job/cpu.max": "50000 100000\n"},
        {
            "proc/self/cgroup": "4:cpu,cpuacct:/job\n",
            "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "100000\n",
            "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
        },
    ],
)
def test_cores_are_no_more_than_a_control_group_or_one_above_grants(files: dict[str, str], tmp_path: Path) -> None:
    assert usable_cores(write(tmp_path, files)) == 1


def test_memory_is_what_is_available_or_left_in_the_control_group(tmp_path: Path) -> None:
    assert usable_memory(write(tmp_path, {})) == 1_024_000
    group = {"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/memory.max": "9000\n"}
    assert usable_memory(write(tmp_path, {**group, "sys/fs/cgroup/job/memory.current": "8000\n"})) == 1000
    assert usable_memory(write(tmp_path, {"sys/fs/cgroup/job/memory.max": "max\n"})) == 1_024_000


def test_soft_limit_of_open_files_is_raised_and_never_lowered() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        allow_open_files(300)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 300
        allow_open_files(100)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 300
        allow_open_files(1 << 40)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(most_open_files(), before[1]), before[1])
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
    assert instruction_set(write(tmp_path, {"proc/cpuinfo": cpuinfo})) == widest


def test_machine_without_cpuinfo_has_no_known_instruction_set(tmp_path: Path) -> None:
    assert instruction_set(tmp_path) is None
