"""WorkerPool, which every engine yields, and the engines for this machine."""

import errno
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dataprep.build.worker import start_process
from dataprep.options import ShardOptions
from schemas.process.memory import demand_threads, is_shortage

# There is one worker per core, so further threads of a library would only compete.
_THREADED = ("OMP", "OPENBLAS", "MKL", "BLIS")
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)  # a pool needs pipes too


class WorkerPool(NamedTuple):
    """An executor and the number of tasks that it runs at a time. The number may change.

    `checks_decoding` is True if the workers run the decode check, because they may be on other machines. `killable` is
    True if the workers are separate processes. `fallback` is the reason why another engine than the requested one is
    used.
    """

    executor: Executor
    workers: Callable[[], int]
    checks_decoding: bool = False
    killable: bool = True
    fallback: str | None = None


class TaskKilled(BrokenExecutor):
    """The workers on one task were killed. The executor continues with the other tasks."""


class SerialExecutor(Executor):
    """Runs each task in this process during `submit`, for debuggers and tests."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn` and return a future that is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def serial(options: ShardOptions, workers: int, source: str, attempts: Path) -> Iterator[WorkerPool]:
    """Run one task at a time in this process."""
    yield WorkerPool(SerialExecutor(), lambda: workers, killable=False)


@contextmanager
def process(options: ShardOptions, workers: int, source: str, attempts: Path) -> Iterator[WorkerPool]:
    """Start a pool of local processes. Use this process if that is not possible. Kill the pool on an error."""
    demand_threads(2)  # the pool's own
    for library in _THREADED:  # inherited: a worker loads NumPy before start_process
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    # spawn: a worker inherits no lock, thread or handle, on every Python version.
    try:
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), start_process)
    except OSError as error:
        if is_shortage(error) or error.errno in _NO_DESCRIPTORS:
            raise
        # Semaphores are files in /dev/shm, which may be too small, read-only or missing in a container.
        yield WorkerPool(SerialExecutor(), lambda: 1, killable=False, fallback=_no_pool(error))
        return
    with _thread_shortages() as check_threads:

        def count() -> int:
            check_threads()
            return workers

        try:
            yield WorkerPool(pool, count)
        except BaseException:
            running = list((pool._processes or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in running:
                worker.kill()
            raise
        pool.shutdown()


def _no_pool(error: OSError) -> str:
    return (
        "--engine process was requested, serial is in effect on one core, because /dev/shm cannot be used "
        f"({error.strerror}); mount it writable with at least 1 MiB to use worker processes"
    )


@contextmanager
def _thread_shortages() -> Iterator[Callable[[], None]]:
    """Yield a function that raises MemoryError if a thread of this process ended because memory was short.

    Without its own thread a pool completes no future, so waiting for one would never end.
    """
    shortages: list[BaseException] = []
    others = threading.excepthook

    def note(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and is_shortage(args.exc_value):
            shortages.append(args.exc_value)
        else:
            others(args)

    def check() -> None:
        if shortages:
            raise MemoryError(str(shortages[0]))

    threading.excepthook = note
    try:
        yield check
    finally:
        threading.excepthook = others
