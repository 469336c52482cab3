"""Who proves a shard: nobody, one child of this process, or the workers of an engine, each with a child of its own."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from dataprep.build.decode_check.originals import ORIGINALS
from dataprep.build.decode_check.supervisor import Fault, Prover, ShardFiles
from dataprep.build.receipt import ROWS, Receipt
from schemas.record import load_schema


@dataclass(frozen=True)
class Proof:
    """What was found at fault in a shard, the seconds that looking took, and the other images that decoders warned of
    by kind of warning.
    """

    faults: list[Fault]
    seconds: float
    warnings: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class ProveOptions:
    """How shards are proved: `decode` and `keep_damaged` as Prover takes them, in `threads`; `scratch` is where the
    decoder leaves dumps.
    """

    schema: str
    scratch: Path
    decode: str | None
    threads: int
    deadline_s: float
    keep_damaged: bool = False

    def start(self) -> Prover:
        """A child that proves so."""
        schema = load_schema(self.schema)
        return Prover(schema, self.scratch, self.decode, self.threads, self.deadline_s, self.keep_damaged)


Prove = Callable[[Receipt], "Future[Proof]"]


def unproved(receipt: Receipt) -> "Future[Proof]":
    """The proof of a shard that is not looked at."""
    future: Future[Proof] = Future()
    future.set_result(Proof([], 0.0))
    return future


@contextmanager
def proving_here(manner: ProveOptions) -> Iterator[Prove]:
    """One child for all shards, and a thread that talks to it."""
    with manner.start() as prover, ThreadPoolExecutor(1) as thread:
        try:
            yield lambda receipt: thread.submit(_prove, prover, _files(receipt))
        except BaseException:
            prover.stop()
            thread.shutdown(wait=True, cancel_futures=True)
            raise


@contextmanager
def proving_there(manner: ProveOptions, executor: Executor) -> Iterator[Prove]:
    """Each worker proves shards in a child that it keeps, so that proof grows with the machines as building does."""
    yield lambda receipt: executor.submit(prove_in_worker, manner, _files(receipt))


def _files(receipt: Receipt) -> ShardFiles:
    attempt = receipt.attempt
    assert attempt is not None
    return ShardFiles(attempt / receipt.shard.name, receipt.shard.rows, attempt / ROWS, attempt / ORIGINALS)


def _prove(prover: Prover, files: ShardFiles) -> Proof:
    started = perf_counter()
    verdict = prover.prove(files)
    return Proof(verdict.faults, perf_counter() - started, verdict.warnings)


_child: tuple[ProveOptions, Prover] | None = None  # of this worker process
_child_lock = threading.Lock()


def prove_in_worker(manner: ProveOptions, files: ShardFiles) -> Proof:
    """Prove a shard in this process's own child, which is started for the first and kept for the next."""
    global _child
    with _child_lock:
        if _child is None or _child[0] != manner:
            _end()
            _child = manner, manner.start()
        return _prove(_child[1], files)


def end_child() -> None:
    """End this process's child, if it has one."""
    with _child_lock:
        _end()


def _end() -> None:
    global _child
    if _child is not None:
        _child[1].stop()
    _child = None
