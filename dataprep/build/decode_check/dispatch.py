"""Run the decode check in one child of this process or in a child of each worker, or skip it."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from dataprep.build.decode_check.originals import ORIGINALS
from dataprep.build.decode_check.supervisor import DecodeChecker, Fault, ShardFiles
from dataprep.build.receipt import ROWS, Receipt
from schemas.record import RecordSchema


@dataclass(frozen=True)
class DecodeResult:
    """Result of the decode check of one shard.

    It has the images to reject, the seconds taken, and the counts of decoder warnings about the other images.
    """

    faults: list[Fault]
    seconds: float
    warnings: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class DecodeCheckOptions:
    """Arguments of DecodeChecker.

    The decoder may write dumps to the folder `scratch`.
    """

    schema: RecordSchema
    scratch: Path
    decode: str | None
    threads: int
    deadline_s: float
    keep_damaged: bool = False

    def start(self) -> DecodeChecker:
        """Start a child with these options."""
        return DecodeChecker(self.schema, self.scratch, self.decode, self.threads, self.deadline_s, self.keep_damaged)


DecodeCheck = Callable[[Receipt], "Future[DecodeResult]"]


def no_decode_check(receipt: Receipt) -> "Future[DecodeResult]":
    """Return an empty result without reading the shard."""
    future: Future[DecodeResult] = Future()
    future.set_result(DecodeResult([], 0.0))
    return future


@contextmanager
def local_decode_check(options: DecodeCheckOptions) -> Iterator[DecodeCheck]:
    """Check all shards in one child; a thread of this process talks to it."""
    with options.start() as checker, ThreadPoolExecutor(1) as thread:
        try:
            yield lambda receipt: thread.submit(_check, checker, _files(receipt))
        except BaseException:
            checker.stop()
            thread.shutdown(wait=True, cancel_futures=True)
            raise


@contextmanager
def distributed_decode_check(options: DecodeCheckOptions, executor: Executor) -> Iterator[DecodeCheck]:
    """Check each shard in a child process of a worker.

    The check then scales with the number of machines.
    """
    yield lambda receipt: executor.submit(check_in_worker, options, _files(receipt))


def _files(receipt: Receipt) -> ShardFiles:
    attempt = receipt.attempt
    assert attempt is not None
    return ShardFiles(attempt / receipt.shard.name, receipt.shard.rows, attempt / ROWS, attempt / ORIGINALS)


def _check(checker: DecodeChecker, files: ShardFiles) -> DecodeResult:
    started = perf_counter()
    findings = checker.check(files)
    return DecodeResult(findings.faults, perf_counter() - started, findings.warnings)


_child: tuple[DecodeCheckOptions, DecodeChecker] | None = None  # of this worker process
_child_lock = threading.Lock()


def check_in_worker(options: DecodeCheckOptions, files: ShardFiles) -> DecodeResult:
    """Check a shard in the child of this worker process. The child is started once and reused."""
    global _child
    with _child_lock:
        if _child is None or _child[0] != options:
            _end()
            _child = options, options.start()
        return _check(_child[1], files)


def end_child() -> None:
    """End the child of this process, if any."""
    with _child_lock:
        _end()


def _end() -> None:
    global _child
    if _child is not None:
        _child[1].stop()
    _child = None
