import os
import resource
from pathlib import Path

import pytest

from trainer.machine import allow_open_files, most_open_files, usable_cores, usable_memory


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
