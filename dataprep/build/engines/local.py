"""Engines on this machine, and what every engine gives."""

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

# There is a worker for each core, so a library that starts a thread for each core again only makes them wait.
_THREADED = ("OMP", "OPENBLAS", "MKL", "BLIS")
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)  # a pool needs pipes too


class WorkerPool(NamedTuple):
    """An executor, and how many tasks it runs at once; that may change while it works. `proves` tells that its workers
    prove what they build, since they are not all on this machine; `killable` that they are processes of their own.
    `fallback` says why this engine works in place of the one that was asked for.
    """

    executor: Executor
    workers: Callable[[], int]
    proves: bool = False
    killable: bool = True
    fallback: str | None = None


class TaskKilled(BrokenExecutor):
    """The workers on this one task were killed; the executor goes on with the others."""


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
def serial(options: ShardOptions, workers: int, source: str, attempts: Path) -> Iterator[WorkerPool]:
    """One task after the other, here."""
    yield WorkerPool(SerialExecutor(), lambda: workers, killable=False)


@contextmanager
def process(options: ShardOptions, workers: int, source: str, attempts: Path) -> Iterator[WorkerPool]:
    """A pool of local processes, or this process where a pool cannot be made. Left by an error, running tasks are
    ended, not waited for.
    """
    demand_threads(2)  # the pool's own
    for library in _THREADED:  # a worker loads NumPy before it runs a line of ours, and inherits this
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    # spawn: a worker inherits no lock, thread or handle of this process, on every Python version.
    try:
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), start_process)
    except OSError as error:
        if is_shortage(error) or error.errno in _NO_DESCRIPTORS:
            raise
        # Semaphores are files in /dev/shm, which a container may give too small, read-only or not at all.
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
        "--engine process was asked for, serial is in effect, on one core, because /dev/shm cannot be used "
        f"({error.strerror}); mounted writable with at least 1 MiB it lets worker processes start"
    )


@contextmanager
def _thread_shortages() -> Iterator[Callable[[], None]]:
    """A function that raises the shortage of memory that has ended a thread of this process.

    A pool whose own thread has ended settles no future any more, and whoever waits for one would wait for ever.
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
