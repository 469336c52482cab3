"""A worker process keeps its libraries from starting threads of their own."""

import os
import threading
from pathlib import Path

import pytest
from PIL import features

from dataprep.build.engines.local import process
from dataprep.options import ShardOptions


def _threads() -> tuple[int, int, int]:
    """All threads of this process, those that Python has started, and those that the AVIF decoder would start."""
    import numpy as np
    from PIL import AvifImagePlugin

    np.ones((64, 64)) @ np.ones((64, 64))
    return len(os.listdir("/proc/self/task")), threading.active_count(), AvifImagePlugin.DEFAULT_MAX_THREADS


@pytest.mark.slow
@pytest.mark.skipif(not features.check("avif"), reason="this Pillow is built without AVIF")
def test_a_worker_keeps_its_libraries_to_one_thread(tmp_path: Path) -> None:
    with process(ShardOptions(), 1, str(tmp_path), tmp_path) as pool:
        threads, own, avif = pool.executor.submit(_threads).result()
    assert threads == own
    assert avif == 1
