"""Engines run the build on workers. The table ENGINES lists them.

An engine is a context manager that yields a WorkerPool.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from dataprep.build.engines.dask import cluster, need_distributed
from dataprep.build.engines.local import WorkerPool, process, serial
from dataprep.options import ShardOptions

# engine(options, workers, source, attempts): `workers` is the maximum that is useful. Workers read `source` (see
# items.portable_path) and write in `attempts`.
Engine = Callable[[ShardOptions, int, str, Path], AbstractContextManager[WorkerPool]]

ENGINES: dict[str, Engine] = {"process": process, "serial": serial, "dask": cluster}


def check_engine(name: str) -> None:
    """Raise DataprepError if the package of an engine is missing. Call it before the scan."""
    if name == "dask":
        need_distributed()
