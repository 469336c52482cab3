"""A worker process keeps its libraries from starting threads of their own."""

import os
from pathlib import Path

import pytest

from dataprep.engines.local import process
from dataprep.options import ShardOptions


def _counted() -> tuple[int, int, int]:
    """Threads of this process before and after NumPy is loaded, and those that the AVIF decoder would start."""
    before = len(os.listdir("/proc/self/task"))
    import numpy as np
    from PIL import AvifImagePlugin

    np.ones((64, 64)) @ np.ones((64, 64))
    return before, len(os.listdir("/proc/self/task")), AvifImagePlugin.DEFAULT_MAX_THREADS


@pytest.mark.slow
def test_a_worker_keeps_its_libraries_to_one_thread(tmp_path: Path) -> None:
    with process(ShardOptions(), 1, tmp_path, tmp_path) as crew:
        before, after, avif = crew.executor.submit(_counted).result()
    assert after == before
    assert avif == 1
