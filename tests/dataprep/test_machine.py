"""How many workers fit: cores by affinity and quota, memory by what is left of the group's."""

import os
import threading
from pathlib import Path

import pytest

from dataprep import machine
from dataprep.engines.local import process
from dataprep.options import ShardOptions

GIB = 1 << 30
AVAILABLE = "MemTotal: 99 kB\nMemAvailable:    8388608 kB\n"


def rooted(tmp_path: Path, cgroup: str, **files: str) -> Path:
    """A root folder with these control group files; `__` in a name stands for a slash."""
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
    assert machine.usable_cores(root) == 3
    assert machine.usable_memory(root) == 8 * GIB


def test_a_quota_of_the_group_or_one_above_it_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    root = rooted(tmp_path, "0::/job/step\n", **{"job__cpu.max": "450000 100000", "job__step__cpu.max": "max 100000"})
    assert machine.usable_cores(root) == 4


def test_half_a_core_is_one_worker(tmp_path: Path) -> None:
    assert machine.usable_cores(rooted(tmp_path, "0::/\n", **{"cpu.max": "50000 100000"})) == 1


def test_version_1_groups_limit_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    groups = {
        "cpu__box__cpu.cfs_quota_us": "200000",
        "cpu__box__cpu.cfs_period_us": "100000",
        "memory__box__memory.limit_in_bytes": str(2 * GIB),
        "memory__box__memory.usage_in_bytes": str(GIB),
    }
    root = rooted(tmp_path, "4:memory:/box\n3:cpu,cpuacct:/box\n", **groups)
    assert machine.usable_cores(root) == 2
    assert machine.usable_memory(root) == GIB


def test_memory_left_in_the_group_limits(tmp_path: Path) -> None:
    files = {"memory.max": str(3 * GIB), "memory.current": str(2 * GIB)}
    assert machine.usable_memory(rooted(tmp_path, "0::/\n", **files)) == GIB


@pytest.mark.parametrize(
    ("cores", "memory", "largest", "proving", "expected"),
    [
        (8, 64 * GIB, 100_000, True, 8),
        (8, GIB, 100_000, False, 8),
        (64, 4 * GIB, 20 << 20, False, 5),
        (64, 4 * GIB, 20 << 20, True, 4),
        (4, 0, 0, True, 1),
    ],
)
def test_workers_fit_into_memory(cores: int, memory: int, largest: int, proving: bool, expected: int) -> None:
    assert machine.workers(cores, memory, largest, proving) == expected


def _threads() -> tuple[int, int, int]:
    """All threads of this process, those that Python has started, and those that the AVIF decoder would start."""
    import numpy as np
    from PIL import AvifImagePlugin

    np.ones((64, 64)) @ np.ones((64, 64))
    return len(os.listdir("/proc/self/task")), threading.active_count(), AvifImagePlugin.DEFAULT_MAX_THREADS


@pytest.mark.slow
def test_a_worker_keeps_its_libraries_to_one_thread(tmp_path: Path) -> None:
    with process(ShardOptions(), 1, str(tmp_path), tmp_path) as crew:
        threads, own, avif = crew.executor.submit(_threads).result()
    assert threads == own
    assert avif == 1
