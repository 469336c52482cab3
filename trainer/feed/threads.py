"""Choose thread counts and queue lengths of the data pipeline from cores, memory and the limit of open files."""

from dataclasses import dataclass
from typing import Protocol

from schemas.counting import many
from trainer.decisions import AS_STARTED, Decision, StartSettings, requested
from trainer.errors import TrainerError

PREFETCH = 8  # rows or batches per queue; half of MindSpore's default, because batches are large
LEAST_PREFETCH = 2  # one entry in use, one entry ready
READING = 8  # decoders per reader: reading a row takes 1/14 of the time of decoding (measured on 2.10)
BATCHING = 8  # decoders per batcher: copying a sample takes about 1/5 of the time of decoding
FIXED_BYTES = 100 << 20
INEXACT = "the weights will differ from those of an uninterrupted run, because each worker draws its own augmentation"
OTHER_FILES = 256  # file descriptors used by Python, MindSpore and the run itself, with a margin


@dataclass(frozen=True)
class Demand:
    """Resource demand of a pipeline: open files, bytes per stored row, bytes per model input, rows per batch."""

    files: int
    row_bytes: int
    sample_bytes: int
    batch_size: int


@dataclass(frozen=True)
class Feed:
    """Thread counts and queue length of a data pipeline.

    `readers` threads read rows, `workers` threads decode and augment images, `batchers` threads make batches.
    `prefetch` is the length of each queue. `open_files` is the number of open files that the process needs. `warning`
    is the reason why a resume cannot be exact, or an empty string.
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
    """Return the pipeline settings for the requested `workers` and `prefetch` (None if not requested).

    `cores` is the number of cores that this process may use. `host_cores` is the number of cores of the host, which
    limits MindSpore's threads; None means equal to `cores`. `memory` is the free memory in bytes, None if unknown.
    Queues may use a quarter of `memory`; `prefetch` is lowered first, then `workers`. A resumed run keeps the number of
    workers in `start` if MindSpore allows that number. Raises TrainerError if `open_files`, the limit of open files, is
    too low for the dataset.
    """
    host_cores = host_cores or cores
    kept = _kept(workers, host_cores, start)
    count, count_why = (kept, AS_STARTED) if kept is not None else _workers(workers, cores, host_cores)
    batchers = 1 + count // BATCHING
    ready, ready_why = (
        (PREFETCH, "rows and batches ready per operator") if prefetch is None else (prefetch, "requested")
    )
    if demand is not None and memory is not None:
        limit = memory // 4
        while prefetch is None and ready > LEAST_PREFETCH and queue_bytes(count, batchers, ready, demand) > limit:
            ready -= 1
            ready_why = f"lowered to fit a quarter of the {_gigabytes(memory)} of free memory"
        while workers is None and kept is None and count > 1 and queue_bytes(count, batchers, ready, demand) > limit:
            count -= 1
            count_why = f"fewer than the {many(cores, 'core')}, to fit a quarter of the free memory"
            batchers = 1 + count // BATCHING
    readers, files = _readers(count, open_files, demand)
    threads = f"{count} decode, {readers} read, {batchers} batch"
    memory_text = "" if demand is None else f"; up to {_gigabytes(queue_bytes(count, batchers, ready, demand))}"
    return Feed(
        readers=readers,
        workers=count,
        batchers=batchers,
        prefetch=ready,
        open_files=files,
        decisions=(
            Decision(
                "workers", requested(workers), str(count), f"{count_why}: {threads}", _notable(workers, count, cores)
            ),
            Decision(
                "prefetch", requested(prefetch), str(ready), ready_why + memory_text, ready < (prefetch or PREFETCH)
            ),
        ),
        warning=_difference(count, workers, host_cores, start),
    )


def queue_bytes(workers: int, batchers: int, prefetch: int, demand: Demand) -> int:
    """Return the memory in bytes that a pipeline uses when all queues are full.

    The last operator holds `prefetch` batches, and each batcher holds two batches. Each decoder holds `prefetch`
    samples before decoding and `prefetch` samples after decoding. The estimate is within 10 % of measurements on
    MindSpore 2.10.
    """
    samples = prefetch * workers * (demand.row_bytes + 2 * demand.sample_bytes)
    return FIXED_BYTES + samples + (prefetch + 2 * batchers) * demand.batch_size * demand.sample_bytes


def _kept(workers: int | None, host_cores: int, start: StartSettings | None) -> int | None:
    """Return the number of workers in `start`, or None if another number is requested or needed."""
    if workers is not None or start is None or start.workers is None or start.workers > host_cores:
        return None
    return start.workers


def _workers(workers: int | None, cores: int, host_cores: int) -> tuple[int, str]:
    if workers is None:
        return cores, "one per core"
    if workers > host_cores:
        return host_cores, f"lowered: MindSpore allows no more than the {many(host_cores, 'core')} of the host"
    if workers > cores:
        return workers, f"requested, though this process may use {cores} of the host's {many(host_cores, 'core')}"
    return workers, "requested"


def _notable(workers: int | None, count: int, cores: int) -> bool:
    return count != cores if workers is None else count < workers


def _difference(count: int, workers: int | None, host_cores: int, start: StartSettings | None) -> str:
    """Return a warning if the number of workers `count` differs from that of `start`, else an empty string."""
    if start is None or start.workers == count:
        return ""
    if start.workers is None:
        return f"this run has no record of its number of workers; unless the number was {count}, {INEXACT}"
    before = f"this run was started with {many(start.workers, 'worker')}"
    if start.workers > host_cores:
        limit = f"too many for MindSpore on a host of {many(host_cores, 'core')}"
        return f"{before}, {limit}; with {many(count, 'worker')} {INEXACT}"
    return f"{before}, but --workers {workers} gives {count}; use --workers {start.workers}, or {INEXACT}"


def _readers(workers: int, open_files: int, demand: Demand | None) -> tuple[int, int]:
    # MindDataset opens each file once, and once more per reading thread (measured on 2.10).
    readers = max(1, -(-workers // READING))
    if demand is None:
        return readers, OTHER_FILES
    while readers > 1 and demand.files * (readers + 1) + OTHER_FILES > open_files:
        readers -= 1
    needed = demand.files * (readers + 1) + OTHER_FILES
    if needed > open_files:
        raise TrainerError(
            f"reading {many(demand.files, 'file')} at once needs {needed} open files, and the hard limit is "
            f"{open_files}; raise the limit ('ulimit -Hn', as root or in limits.conf), or shard into fewer files "
            "with a larger --shard-size"
        )
    return readers, needed


def _gigabytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


class FeedSettings(Protocol):
    """Settings of a data pipeline: thread counts, queue length and this rank's share of the rows.

    `workers` threads decode, `readers` threads read rows, `batchers` threads make batches. `prefetch` is the length of
    each queue. This process is rank `shard_id` of `num_shards` ranks.
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
