"""Who proves a shard: nobody, one child of this process, or the workers of an engine, each with a child of its own."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from dataprep.prover import Fault, Prover
from dataprep.receipt import ROWS, Receipt
from schemas.record import load_schema


@dataclass(frozen=True)
class Proof:
    """What was found at fault in a shard, and the seconds that looking took."""

    faults: list[Fault]
    seconds: float


@dataclass(frozen=True)
class Manner:
    """How shards are proved: `decode` as Prover takes it, in `threads`; `scratch` is where the decoder leaves dumps."""

    schema: str
    scratch: Path
    decode: str | None
    threads: int
    deadline_s: float

    def start(self) -> Prover:
        """A child that proves so."""
        return Prover(load_schema(self.schema), self.scratch, self.decode, self.threads, self.deadline_s)


Prove = Callable[[Receipt], "Future[Proof]"]


def unproved(receipt: Receipt) -> "Future[Proof]":
    """The proof of a shard that is not looked at."""
    future: Future[Proof] = Future()
    future.set_result(Proof([], 0.0))
    return future


@contextmanager
def proving_here(manner: Manner) -> Iterator[Prove]:
    """One child for all shards, and a thread that talks to it."""
    with manner.start() as prover, ThreadPoolExecutor(1) as thread:
        try:
            yield lambda receipt: thread.submit(_prove, prover, *_asked(receipt))
        except BaseException:
            prover.stop()
            thread.shutdown(wait=True, cancel_futures=True)
            raise


@contextmanager
def proving_there(manner: Manner, executor: Executor) -> Iterator[Prove]:
    """Each worker proves shards in a child that it keeps, so that proof grows with the machines as building does."""
    yield lambda receipt: executor.submit(prove_in_worker, manner, *_asked(receipt))


def _asked(receipt: Receipt) -> tuple[Path, int, Path]:
    assert receipt.attempt is not None
    return receipt.attempt / receipt.shard.name, receipt.shard.rows, receipt.attempt / ROWS


def _prove(prover: Prover, shard: Path, rows: int, noted: Path) -> Proof:
    started = perf_counter()
    faults = prover.prove(shard, rows, noted)
    return Proof(faults, perf_counter() - started)


_child: tuple[Manner, Prover] | None = None  # of this worker process
_child_lock = threading.Lock()


def prove_in_worker(manner: Manner, shard: Path, rows: int, noted: Path) -> Proof:
    """Prove a shard in this process's own child, which is started for the first and kept for the next."""
    global _child
    with _child_lock:
        if _child is None or _child[0] != manner:
            _end()
            _child = manner, manner.start()
        return _prove(_child[1], shard, rows, noted)


def end_child() -> None:
    """End this process's child, if it has one."""
    with _child_lock:
        _end()


def _end() -> None:
    global _child
    if _child is not None:
        _child[1].stop()
    _child = None
