"""The engine for more machines: workers of a Dask cluster. Nothing else knows of Dask, and only its use imports it.

Before the first task, each worker must run the same software and see the same folders; workers that join later look
when their first task comes. Dask itself repeats the tasks of lost workers. A lost scheduler ends the job: run again,
it resumes.
"""

import importlib.util
import json
import logging
import os
import socket
import sys
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, InvalidStateError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dataprep.build.decode_check.dispatch import end_child
from dataprep.build.engines.local import TaskKilled, WorkerPool
from dataprep.build.software import software
from dataprep.errors import DataprepError, TryLater
from dataprep.items import encode_name
from dataprep.options import ShardOptions
from schemas.process.memory import is_shortage

CONNECT_S = 10.0  # for the scheduler to answer
WORKERS_S = 60.0  # without any worker
SHARED_S = 5.0  # for a file made on one machine to be seen on another: network file systems cache listings
CLOSE_S = 5.0
LOOK_S = 1.0  # between two looks at how many workers there are

INSTALL = "--engine dask needs the package distributed: pip install distributed (the extra [dask])"
LOST = "the connection to the Dask scheduler was lost; with a scheduler again, the same command goes on"


@dataclass(frozen=True)
class WorkerCheck:
    """What each worker must find as this process does. `token` is a file that the latter has put into `attempts`.

    `quiet` workers are of this job alone, and share its terminal. `source` is SOURCE as keys.portable_path gives it,
    `encoding` what the parent's other paths are encoded with.
    """

    software: dict[str, str]
    source: str
    attempts: Path
    token: str
    quiet: bool
    encoding: str = field(default_factory=sys.getfilesystemencoding)


def need_distributed() -> None:
    """Raise DataprepError when the package is missing."""
    if importlib.util.find_spec("distributed") is None:
        raise DataprepError(INSTALL)


@contextmanager
def cluster(options: ShardOptions, workers: int, source: str, attempts: Path) -> Iterator[WorkerPool]:
    """The workers of a Dask cluster: the one that the options name, else `workers` processes on this machine."""
    import distributed  # noqa: F401  first: it sets up its log when it is imported

    _silence()
    named = options.dask_address or options.dask_scheduler_file
    with _address(options, workers) as address, _client(address) as client:
        _await_workers(client)
        ground = WorkerCheck(software(), source, attempts, f"token-{uuid.uuid4().hex}", quiet=not named)
        (attempts / ground.token).touch()
        _check_workers(client, ground)
        executor = ClusterExecutor(client, ground)
        try:
            yield WorkerPool(executor, executor.workers, proves=True)
        finally:
            executor.stop()
            with suppress(Exception):  # workers that are gone have no child either
                client.run(end_child)


def _silence() -> None:
    """Have Dask's own messages kept off the terminal; what matters of them is said by an exception."""
    warnings.filterwarnings("ignore", "Mismatched versions found")  # the check of the workers says it in a sentence
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("distributed", "tornado")]
    for name in ["distributed", *names]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextmanager
def _address(options: ShardOptions, workers: int) -> Iterator[str]:
    if options.dask_address:
        yield options.dask_address
    elif options.dask_scheduler_file:
        yield _told_address(options.dask_scheduler_file)
    else:
        cluster = _local_cluster(workers)
        try:
            yield cluster.scheduler_address
        finally:
            with suppress(Exception):
                cluster.close(timeout=CLOSE_S)


def _local_cluster(workers: int) -> Any:
    """Worker processes on this machine. Raises DataprepError where it lacks what they need."""
    from distributed import LocalCluster

    # No dashboard and only free ports, so that jobs do not meet. As with a process pool, memory is the user's.
    try:
        return LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        )
    except (OSError, RuntimeError) as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if is_shortage(cause):
            raise cause from None
        raise DataprepError(
            f"the workers of a local Dask cluster cannot be started ({cause}); they need /dev/shm and a temporary "
            "folder (TMPDIR) that can be written to; --engine process goes on without"
        ) from None


def _told_address(path: Path) -> str:
    """The address in a scheduler file; a scheduler that was just started has a moment to write it."""
    deadline = time.monotonic() + CONNECT_S
    while True:
        with suppress(OSError, ValueError, KeyError, TypeError):
            return str(json.loads(path.read_bytes())["address"])
        if time.monotonic() > deadline:
            raise TryLater(f"no Dask scheduler has told its address in {path}; start one with --scheduler-file {path}")
        time.sleep(0.1)


@contextmanager
def _client(address: str) -> Iterator[Any]:
    from distributed import Client, TimeoutError  # of its own on Python 3.10

    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except ValueError as error:
        raise DataprepError(f"'{address}' is no address of a Dask scheduler: {error}") from None
    except (OSError, TimeoutError):
        raise TryLater(f"no Dask scheduler answers at {address} within {CONNECT_S:g} s") from None
    try:
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=CLOSE_S)


def _await_workers(client: Any) -> None:
    from distributed import TimeoutError

    try:
        client.wait_for_workers(1, timeout=WORKERS_S)
    except TimeoutError:
        raise TryLater(f"the Dask scheduler has had no worker for {WORKERS_S:g} s; start some, or wait") from None
    except OSError:
        raise TryLater(LOST) from None


def _check_workers(client: Any, ground: WorkerCheck) -> None:
    """Raise DataprepError when a worker is not fit for the job, or this process does not see what it writes."""
    from distributed.comm import CommClosedError

    try:
        answers = client.run(probe, ground, on_error="return")
    except OSError:
        raise TryLater(LOST) from None
    for worker, answer in answers.items():
        if isinstance(answer, CommClosedError):
            continue  # it has died since, and the tasks that it would have got will look for themselves
        if isinstance(answer, BaseException):
            raise DataprepError(f"the Dask worker {worker} {_unfit(answer, ground)}")
        written = ground.attempts / answer
        if not _appears(written):
            raise DataprepError(
                f"the Dask worker {worker} writes below {ground.attempts}, and here nothing of it is seen; "
                "OUT must lie on a file system that all machines share, and be open to one user on all of them"
            )


def _unfit(error: BaseException, ground: WorkerCheck) -> str:
    """What is wrong with a worker that has failed the check."""
    if isinstance(error, Unfit):
        return str(error)
    if isinstance(error, ImportError) or "ModuleNotFoundError" in str(error):  # Dask may send the text alone
        return f"cannot load this program ({error}); install the same mindspore-dataprep there"
    if isinstance(error, OSError):
        return f"cannot write below {ground.attempts}: {error.strerror}"
    return f"fails its check: {type(error).__name__}: {error}"


# From here to the next line like this: what runs in a worker.


class Unfit(DataprepError):
    """This worker is not fit for the job; the text is what is said behind its name."""


_fit: set[str] = set()  # tokens of the jobs that this process was found fit for


def probe(ground: WorkerCheck) -> str:
    """Make a folder with a file as build_shard does, for the parent to look into; the file's path in `attempts`."""
    look(ground)
    folder = Path(tempfile.mkdtemp(prefix="probe-", dir=ground.attempts))
    (folder / "probe").touch()
    return f"{folder.name}/probe"


def look(ground: WorkerCheck) -> None:
    """Raise Unfit when this process would not write the parent's bytes, or not where it looks."""
    here = software()
    for name, version in ground.software.items():
        if here.get(name) != version:
            raise Unfit(f"has {name} {here.get(name)}, and this process {version}; all must be the same")
    # SOURCE is read by its bytes; OUT's paths reach a worker as text, which each process encodes by its own locale.
    if ground.encoding != sys.getfilesystemencoding() and not str(ground.attempts).isascii():
        raise Unfit(f"does not encode names of files as {ground.encoding}: start it with PYTHONUTF8=1 set")
    if not os.path.isdir(encode_name(ground.source)):
        raise Unfit(f"does not see SOURCE {ground.source}")
    if not _appears(ground.attempts / ground.token):
        raise Unfit(f"does not see {ground.attempts} as it is here; OUT must lie on a file system that all share")


def on_worker(ground: WorkerCheck, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a task, in a process that was found fit for it."""
    if ground.token not in _fit:
        try:
            look(ground)
        except Unfit as error:
            raise Unfit(f"the Dask worker {os.getpid()} on {socket.gethostname()} {error}") from None
        if ground.quiet:
            # Codecs print to file descriptor 2 from C, and one process owns the terminal.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
        _fit.add(ground.token)
    return fn(*args, **kwargs)


def _appears(path: Path) -> bool:
    deadline = time.monotonic() + SHARED_S
    while True:
        with suppress(OSError), path.open("rb"):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)


# What runs in the parent.


class ClusterExecutor(Executor):
    """Client.get_executor, with the errors that any executor has, and an end to waiting for workers."""

    def __init__(self, client: Any, ground: WorkerCheck) -> None:
        self._client = client
        self._ground = ground
        self._executor = client.get_executor(pure=False)
        self._open: set[Future[Any]] = set()
        self._threads = 1
        self._stopped = threading.Event()
        self._count_threads()
        threading.Thread(target=self._watch, daemon=True).start()

    def workers(self) -> int:
        """How many tasks the cluster ran at once when it was last looked at; it may grow and shrink."""
        return self._threads

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a worker run `fn`, which it must be able to import."""
        future: Future[Any] = Future()
        try:
            task = self._executor.submit(on_worker, self._ground, fn, *args, **kwargs)
        except Exception:
            # Nothing but a closed client refuses a task; Dask has no common class for that.
            raise TryLater(LOST) from None
        self._open.add(future)
        task.add_done_callback(partial(self._settle, future))
        return future

    def stop(self) -> None:
        """Look after the workers no longer."""
        self._stopped.set()

    def _settle(self, future: "Future[Any]", task: "Future[Any]") -> None:
        self._open.discard(future)
        error = TryLater(LOST) if task.cancelled() else _translated(task.exception())
        with suppress(InvalidStateError):  # settled by _watch
            if error:
                future.set_exception(error)
            else:
                future.set_result(task.result())

    def _watch(self) -> None:
        """Give up when there was no worker for long: Dask itself would wait for ever."""
        seen = time.monotonic()
        while not self._stopped.wait(LOOK_S):
            with suppress(Exception):  # what is wrong with the scheduler, the tasks will tell
                if self._count_threads():
                    seen = time.monotonic()
            if time.monotonic() - seen > WORKERS_S:
                without = f"the Dask scheduler has had no worker for {WORKERS_S:g} s"
                for future in list(self._open):
                    with suppress(InvalidStateError):
                        future.set_exception(TryLater(f"{without}; with workers again, the same command goes on"))

    def _count_threads(self) -> int:
        threads: int = sum(self._client.nthreads().values())
        self._threads = threads or self._threads
        return threads


def _translated(error: BaseException | None) -> BaseException | None:
    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    if isinstance(error, KilledWorker):
        return TaskKilled(str(error))
    if isinstance(error, CommClosedError):
        return TryLater(LOST)
    if isinstance(error, ImportError) or "ModuleNotFoundError" in str(error):
        return DataprepError(f"a Dask worker cannot load this program ({error}); install the same there")
    return error
