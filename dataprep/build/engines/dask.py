"""Engine for several machines: workers of a Dask cluster. The only module that uses Dask, imported on use.

Each worker must run the same software and see the same folders. This is checked before the first task, for workers
that join later at their first task. Dask repeats the tasks of lost workers. A lost scheduler ends the job; the same
command resumes it.
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

CONNECT_S = 10.0  # timeout for an answer of the scheduler
WORKERS_S = 60.0  # timeout without any worker
SHARED_S = 5.0  # until a file appears on another machine: network file systems cache listings
CLOSE_S = 5.0
POLL_S = 1.0  # interval of counting the workers

INSTALL = "--engine dask needs the package distributed: pip install distributed (the extra [dask])"
LOST = "the connection to the Dask scheduler was lost; restart the scheduler, then the same command resumes"


@dataclass(frozen=True)
class WorkerCheck:
    """Conditions for a worker: equal software, and SOURCE and `attempts` visible. `token` is a file in `attempts`.

    `quiet` workers belong to this job only and share its terminal. `source` is SOURCE as items.portable_path returns
    it; `encoding` is the parent's encoding of other paths.
    """

    software: dict[str, str]
    source: str
    attempts: Path
    token: str
    quiet: bool
    encoding: str = field(default_factory=sys.getfilesystemencoding)


def need_distributed() -> None:
    """Raise DataprepError if the package is missing."""
    if importlib.util.find_spec("distributed") is None:
        raise DataprepError(INSTALL)


@contextmanager
def cluster(options: ShardOptions, workers: int, source: str, attempts: Path) -> Iterator[WorkerPool]:
    """Use the Dask cluster named by the options. Without one, start `workers` processes on this machine."""
    import distributed  # noqa: F401  before _silence: the import configures its log

    _silence()
    named = options.dask_address or options.dask_scheduler_file
    with _address(options, workers) as address, _client(address) as client:
        _await_workers(client)
        check = WorkerCheck(software(), source, attempts, f"token-{uuid.uuid4().hex}", quiet=not named)
        (attempts / check.token).touch()
        check_workers(client, check)
        executor = ClusterExecutor(client, check)
        try:
            yield WorkerPool(executor, executor.workers, checks_decoding=True)
        finally:
            executor.stop()
            with suppress(Exception):  # lost workers have no child
                client.run(end_child)


def _silence() -> None:
    """Keep Dask's messages off the terminal. Exceptions report the errors."""
    warnings.filterwarnings("ignore", "Mismatched versions found")  # check_workers reports this
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("distributed", "tornado")]
    for name in ["distributed", *names]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextmanager
def _address(options: ShardOptions, workers: int) -> Iterator[str]:
    if options.dask_address:
        yield options.dask_address
    elif options.dask_scheduler_file:
        yield _read_address(options.dask_scheduler_file)
    else:
        cluster = _local_cluster(workers)
        try:
            yield cluster.scheduler_address
        finally:
            with suppress(Exception):
                cluster.close(timeout=CLOSE_S)


def _local_cluster(workers: int) -> Any:
    """Start worker processes on this machine. Raise DataprepError if that is not possible."""
    from distributed import LocalCluster

    # No dashboard and only free ports, so that jobs do not conflict. No memory limit, as in a process pool.
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
            f"the workers of a local Dask cluster cannot be started ({cause}); they need /dev/shm and a writable "
            "temporary folder (TMPDIR); --engine process resumes the job without them"
        ) from None


def _read_address(path: Path) -> str:
    """Return the address in a scheduler file. Wait up to CONNECT_S seconds for a scheduler that was just started."""
    deadline = time.monotonic() + CONNECT_S
    while True:
        with suppress(OSError, ValueError, KeyError, TypeError):
            return str(json.loads(path.read_bytes())["address"])
        if time.monotonic() > deadline:
            raise TryLater(f"no Dask scheduler has written its address to {path}; start it with this --scheduler-file")
        time.sleep(0.1)


@contextmanager
def _client(address: str) -> Iterator[Any]:
    from distributed import Client, TimeoutError  # of its own on Python 3.10

    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except ValueError as error:
        raise DataprepError(f"'{address}' is not the address of a Dask scheduler: {error}") from None
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
        raise TryLater(f"the Dask scheduler has had no worker for {WORKERS_S:g} s; start workers, or wait") from None
    except OSError:
        raise TryLater(LOST) from None


def check_workers(client: Any, check: WorkerCheck) -> None:
    """Raise DataprepError if a worker fails the check, or if its files are not visible here."""
    from distributed.comm import CommClosedError

    try:
        answers = client.run(probe, check, on_error="return")
    except OSError:
        raise TryLater(LOST) from None
    for worker, answer in answers.items():
        if isinstance(answer, CommClosedError):
            continue  # the worker is lost; others check themselves at their first task
        if isinstance(answer, BaseException):
            raise DataprepError(f"the Dask worker {worker} {_unfit(answer, check)}")
        written = check.attempts / answer
        if not _appears(written):
            raise DataprepError(
                f"files that the Dask worker {worker} writes below {check.attempts} are not visible here; "
                "OUT must be on a file system that all machines share, and accessible to this user on all of them"
            )


def _unfit(error: BaseException, check: WorkerCheck) -> str:
    """Return the reason why a worker failed the check."""
    if isinstance(error, Unfit):
        return str(error)
    if isinstance(error, ImportError) or "ModuleNotFoundError" in str(error):  # Dask may send the text alone
        return f"cannot load this program ({error}); install the same version of mindspore-dataprep there"
    if isinstance(error, OSError):
        return f"cannot write below {check.attempts}: {error.strerror}"
    return f"failed its check: {type(error).__name__}: {error}"


# Runs in a worker.


class Unfit(DataprepError):
    """This worker cannot take part in the job.

    The text continues a sentence that starts with the name of the worker.
    """


_fit: set[str] = set()  # tokens of the jobs whose check this process passed


def probe(check: WorkerCheck) -> str:
    """Check this worker and write a file as build_shard does.

    Returns the path of the file in `attempts`, so that the parent can look for it.
    """
    check_this_worker(check)
    folder = Path(tempfile.mkdtemp(prefix="probe-", dir=check.attempts))
    (folder / "probe").touch()
    return f"{folder.name}/probe"


def check_this_worker(check: WorkerCheck) -> None:
    """Raise Unfit if this process would write other bytes, or to another folder, than the parent."""
    here = software()
    for name, version in check.software.items():
        if here.get(name) != version:
            raise Unfit(f"has {name} {here.get(name)}, but this process has {version}; both must be the same")
    # The path of SOURCE is sent as bytes; paths in OUT are text, which each process encodes by its own locale.
    if check.encoding != sys.getfilesystemencoding() and not str(check.attempts).isascii():
        raise Unfit(f"does not encode file names as {check.encoding}: start it with PYTHONUTF8=1")
    if not os.path.isdir(encode_name(check.source)):
        raise Unfit(f"does not see SOURCE {check.source}")
    if not _appears(check.attempts / check.token):
        raise Unfit(f"does not see {check.attempts} as it is here; OUT must be on a file system that all share")


def on_worker(check: WorkerCheck, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a task. First check this process if it has not yet passed the check of the job."""
    if check.token not in _fit:
        try:
            check_this_worker(check)
        except Unfit as error:
            raise Unfit(f"the Dask worker {os.getpid()} on {socket.gethostname()} {error}") from None
        if check.quiet:
            # Codecs print to file descriptor 2 from C, and only the parent may use the terminal.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
        _fit.add(check.token)
    return fn(*args, **kwargs)


def _appears(path: Path) -> bool:
    deadline = time.monotonic() + SHARED_S
    while True:
        with suppress(OSError), path.open("rb"):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)


# Runs in the parent.


class ClusterExecutor(Executor):
    """An executor for a Dask cluster.

    It raises the exceptions of a local executor, and fails after a timeout without workers.
    """

    def __init__(self, client: Any, check: WorkerCheck) -> None:
        self._client = client
        self._check = check
        self._executor = client.get_executor(pure=False)
        self._open: set[Future[Any]] = set()
        self._threads = 1
        self._stopped = threading.Event()
        self._count_threads()
        threading.Thread(target=self._watch, daemon=True).start()

    def workers(self) -> int:
        """Return the last known number of tasks that the cluster runs at a time."""
        return self._threads

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn` on a worker, which must be able to import it."""
        future: Future[Any] = Future()
        try:
            task = self._executor.submit(on_worker, self._check, fn, *args, **kwargs)
        except Exception:
            # Only a closed client rejects a task; Dask has no common exception class for that.
            raise TryLater(LOST) from None
        self._open.add(future)
        task.add_done_callback(partial(self._settle, future))
        return future

    def stop(self) -> None:
        """Stop watching the workers."""
        self._stopped.set()

    def _settle(self, future: "Future[Any]", task: "Future[Any]") -> None:
        self._open.discard(future)
        error = TryLater(LOST) if task.cancelled() else _translated(task.exception())
        with suppress(InvalidStateError):  # already set by _watch
            if error:
                future.set_exception(error)
            else:
                future.set_result(task.result())

    def _watch(self) -> None:
        """Fail all tasks after WORKERS_S seconds without a worker. Dask itself would wait forever."""
        last_seen = time.monotonic()
        while not self._stopped.wait(POLL_S):
            with suppress(Exception):  # tasks report failures of the scheduler
                if self._count_threads():
                    last_seen = time.monotonic()
            if time.monotonic() - last_seen > WORKERS_S:
                timeout = f"the Dask scheduler has had no worker for {WORKERS_S:g} s"
                for future in list(self._open):
                    with suppress(InvalidStateError):
                        future.set_exception(TryLater(f"{timeout}; start workers, then the same command resumes"))

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
        return DataprepError(f"a Dask worker cannot load this program ({error}); install the same version there")
    return error
