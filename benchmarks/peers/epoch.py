"""Goes through one epoch of a pipeline and tells how long it took."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.peers.folder import BATCH, started, tell


def epoch(make: Callable[[], Iterable[Any]]) -> None:
    """Make the pipeline and read it to its end; full batches only. To be called after the imports."""
    figures = started()
    began = time.perf_counter()
    batches = 0
    for _ in make():
        if not batches:
            figures["first_s"] = time.perf_counter() - began
        batches += 1
    figures["epoch_s"] = time.perf_counter() - began
    figures["images"] = batches * BATCH
    tell(figures)
