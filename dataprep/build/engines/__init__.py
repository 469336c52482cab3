"""Where shards are built. An engine is a context manager that gives a Crew; table ENGINES."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from dataprep.build.engines.dask import cluster, need_distributed
from dataprep.build.engines.local import SerialExecutor, TaskKilled, WorkerPool, process, serial
from dataprep.options import ShardOptions

__all__ = ["ENGINES", "SerialExecutor", "TaskKilled", "WorkerPool", "check_engine"]

# engine(options, workers, source, attempts): `workers` is how many may find work; `source`, as keys.portable_path gives
# it, is read by all of them, in `attempts` they write.
Engine = Callable[[ShardOptions, int, str, Path], AbstractContextManager[WorkerPool]]

ENGINES: dict[str, Engine] = {"process": process, "serial": serial, "dask": cluster}


def check_engine(name: str) -> None:
    """Raise DataprepError when the package of an engine is missing: better known before the scan than after."""
    if name == "dask":
        need_distributed()
