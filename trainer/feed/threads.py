"""How many threads read, decode and batch, and how much is held ready: by cores, memory, sample size, files. Pure."""

from dataclasses import dataclass
from typing import Protocol

from schemas.counting import many
from trainer.decisions import AS_STARTED, Decision, StartSettings, requested
from trainer.errors import TrainerError

PREFETCH = 8  # rows or batches held ready by each operator: half of MindSpore's own, since batches are large
LEAST_PREFETCH = 2  # one in use, one ready
READING = 8  # decoders that one reader keeps busy, with room: reading costs a fourteenth of a decode (measured on 2.10)
BATCHING = 8  # decoders that one batcher keeps busy: it copies each sample, for about a fifth of a decode
FIXED_BYTES = 100 << 20
INEXACT = "the weights will differ from those of an undisturbed run, since random augmentation is drawn per worker"
OTHER_FILES = 256  # descriptors that Python, MindSpore and the run itself hold, with room


@dataclass(frozen=True)
class Demand:
    """What a run asks of the pipeline. Sizes in bytes: a row as stored, a sample as it reaches the model.

    `files` are those of all splits that are open at once; `batch_size` is in samples.
    """

    files: int
    row_bytes: int
    sample_bytes: int
    batch_size: int


@dataclass(frozen=True)
class Feed:
    """Threads that read, that decode and augment (`workers`), and that batch; `prefetch` a queue; open files.

    `warning` says why a resume cannot be exact, empty when nothing is in its way.
    """

    readers: int
    workers: int
    batchers: int
    prefetch: int
    open_files: int
    decisions: tuple[Decision, ...]
    warning: str = ""


def decide_feed(
    workers: int | None,
    prefetch: int | None,
    cores: int,
    memory: int | None,
    open_files: int,
    demand: Demand | None,
    host_cores: int | None = None,
    start: StartSettings | None = None,
) -> Feed:
    """The feed for what was asked (None: not asked) on a machine; memory None when it was not looked at.

    `cores` are those that this process may use; `host_cores` those of the host, MindSpore's own limit (None: the same).
    A quarter of the memory is for what is held ready; it costs prefetch first, then workers, unless a run goes on: it
    keeps those that it `start` with where MindSpore allows it. Raises TrainerError when the files of the dataset cannot
    be open at once.
    """
    host_cores = host_cores or cores
    kept = _kept(workers, host_cores, start)
    count, count_why = (kept, AS_STARTED) if kept is not None else _workers(workers, cores, host_cores)
    batchers = 1 + count // BATCHING
    ready, ready_why = (
        (PREFETCH, "rows and batches held ready by each operator") if prefetch is None else (prefetch, "requested")
    )
    if demand is not None and memory is not None:
        room = memory // 4
        while prefetch is None and ready > LEAST_PREFETCH and held_bytes(count, batchers, ready, demand) > room:
            ready -= 1
            ready_why = f"lowered to hold no more than a quarter of the {_gigabytes(memory)} of free memory"
        while workers is None and kept is None and count > 1 and held_bytes(count, batchers, ready, demand) > room:
            count -= 1
            count_why = f"fewer than the {many(cores, 'core')}, to hold no more than a quarter of the free memory"
            batchers = 1 + count // BATCHING
    readers, files = _readers(count, open_files, demand)
    threads = f"{count} decode, {readers} read, {batchers} batch"
    held = "" if demand is None else f"; up to {_gigabytes(held_bytes(count, batchers, ready, demand))}"
    return Feed(
        readers=readers,
        workers=count,
        batchers=batchers,
        prefetch=ready,
        open_files=files,
        decisions=(
            Decision("workers", requested(workers), str(count), f"{count_why}: {threads}", _notable(workers, count, cores)),
            Decision("prefetch", requested(prefetch), str(ready), ready_why + held, ready < (prefetch or PREFETCH)),
        ),
        warning=_difference(count, workers, host_cores, start),
    )


def held_bytes(workers: int, batchers: int, prefetch: int, demand: Demand) -> int:
    """The memory of a pipeline that waits with all queues full.

    Measured on 2.10, within a tenth: the last operator holds `prefetch` batches and each batcher two more, each decoder
    `prefetch` samples on either side; the rest does not depend on them.
    """
    samples = prefetch * workers * (demand.row_bytes + 2 * demand.sample_bytes)
    return FIXED_BYTES + samples + (prefetch + 2 * batchers) * demand.batch_size * demand.sample_bytes


def _kept(workers: int | None, host_cores: int, start: StartSettings | None) -> int | None:
    """Return the number of workers that a run goes on with because it began with it; None where it cannot be."""
    if workers is not None or start is None or start.workers is None or start.workers > host_cores:
        return None
    return start.workers


def _workers(workers: int | None, cores: int, host_cores: int) -> tuple[int, str]:
    if workers is None:
        return cores, "one per core"
    if workers > host_cores:
        return host_cores, f"lowered: MindSpore refuses more than the {many(host_cores, 'core')} of the host"
    if workers > cores:
        return workers, f"requested, though this process may use {cores} of the host's {many(host_cores, 'core')}"
    return workers, "requested"


def _notable(workers: int | None, count: int, cores: int) -> bool:
    return count != cores if workers is None else count < workers


def _difference(count: int, workers: int | None, host_cores: int, start: StartSettings | None) -> str:
    """Return the warning of a run that goes on with `count` workers; empty when it began with as many."""
    if start is None or start.workers == count:
        return ""
    if start.workers is None:
        return f"this run has no record of its number of workers; unless it was {count}, {INEXACT}"
    before = f"this run began with {many(start.workers, 'worker')}"
    if start.workers > host_cores:
        return f"{before}, which MindSpore refuses on a host of {many(host_cores, 'core')}; with {count} {INEXACT}"
    return f"{before}, but --workers {workers} makes it {count}; {INEXACT}, so use --workers {start.workers}"


def _readers(workers: int, open_files: int, demand: Demand | None) -> tuple[int, int]:
    # A reader of MindRecord holds each file once for itself and once for each of its threads (measured on 2.10).
    readers = max(1, -(-workers // READING))
    if demand is None:
        return readers, OTHER_FILES
    while readers > 1 and demand.files * (readers + 1) + OTHER_FILES > open_files:
        readers -= 1
    needed = demand.files * (readers + 1) + OTHER_FILES
    if needed > open_files:
        raise TrainerError(
            f"reading {many(demand.files, 'file')} at once takes {needed} open files, and the hard limit is "
            f"{open_files}; raise it ('ulimit -Hn', as root or in limits.conf), or shard into fewer files "
            "with a larger --shard-size"
        )
    return readers, needed


def _gigabytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


class FeedSettings(Protocol):
    """The decisions that a pipeline is built from: threads, queue lengths and this rank's part of the rows.

    `workers` decode, `readers` read rows, `batchers` make batches, `prefetch` is the length of each queue. Rank
    `shard_id` of `num_shards` ranks reads its own part.
    """

    @property
    def workers(self) -> int: ...  # noqa: D102
    @property
    def readers(self) -> int: ...  # noqa: D102
    @property
    def batchers(self) -> int: ...  # noqa: D102
    @property
    def prefetch(self) -> int: ...  # noqa: D102
    @property
    def num_shards(self) -> int: ...  # noqa: D102
    @property
    def shard_id(self) -> int: ...  # noqa: D102
