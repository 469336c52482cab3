"""Where shards are built. An engine is a context manager that gives a concurrent.futures.Executor."""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from dataprep.worker import start_process


class SerialExecutor(Executor):
    """Runs each task at once, in this process: for debuggers and tests."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn` now; the future that comes back is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def serial(workers: int) -> Iterator[Executor]:
    """One task after the other, here."""
    yield SerialExecutor()


@contextmanager
def process(workers: int) -> Iterator[Executor]:
    """A pool of local processes. Left by an error, running tasks are ended, not waited for."""
    # spawn: a worker inherits no lock, thread or handle of this process, on every Python version.
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), start_process)
    try:
        yield pool
    except BaseException:
        running = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in running:
            worker.kill()
        raise
    pool.shutdown()


ENGINES: dict[str, Callable[[int], AbstractContextManager[Executor]]] = {"process": process, "serial": serial}
