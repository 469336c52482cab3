"""How many threads read, decode and batch, and how much is held ready: by cores, memory, sample size, files. Pure."""

from dataclasses import dataclass

from trainer.decision import Decision, asked
from trainer.errors import TrainerError

PREFETCH = 8  # rows or batches held ready by each operator: half of MindSpore's own, since batches are large
LEAST_PREFETCH = 2  # one in use, one ready
READING = 8  # decoders that one reader keeps busy, with room: reading costs a fourteenth of a decode (measured on 2.10)
BATCHING = 8  # decoders that one batcher keeps busy: it copies each sample, for about a fifth of a decode
FIXED_BYTES = 100 << 20
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
    """Threads that read, that decode and augment (`workers`), and that batch; `prefetch` a queue; open files."""

    readers: int
    workers: int
    batchers: int
    prefetch: int
    open_files: int
    decisions: tuple[Decision, ...]


def decide_feed(
    workers: int | None,
    prefetch: int | None,
    cores: int,
    memory: int | None,
    open_files: int,
    demand: Demand | None,
    host_cores: int | None = None,
) -> Feed:
    """The feed for what was asked (None: not asked) on a machine; memory None when it was not looked at.

    `cores` are those that this process may use; `host_cores` those of the host, MindSpore's own limit (None: the same).
    A quarter of the memory is for what is held ready; it costs prefetch first, then workers. Raises TrainerError when
    the files of the dataset cannot be open at once.
    """
    count, count_why = _workers(workers, cores, host_cores or cores)
    batchers = 1 + count // BATCHING
    ready, ready_why = (
        (PREFETCH, "rows and batches held ready by each operator") if prefetch is None else (prefetch, "asked for")
    )
    if demand is not None and memory is not None:
        room = memory // 4
        while prefetch is None and ready > LEAST_PREFETCH and held_bytes(count, batchers, ready, demand) > room:
            ready -= 1
            ready_why = f"lowered to hold no more than a quarter of the {_gigabytes(memory)} of free memory"
        while workers is None and count > 1 and held_bytes(count, batchers, ready, demand) > room:
            count -= 1
            count_why = f"fewer than the {cores} cores, to hold no more than a quarter of the free memory"
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
            Decision("workers", asked(workers), str(count), f"{count_why}: {threads}", count < (workers or cores)),
            Decision("prefetch", asked(prefetch), str(ready), ready_why + held, ready < (prefetch or PREFETCH)),
        ),
    )


def held_bytes(workers: int, batchers: int, prefetch: int, demand: Demand) -> int:
    """The memory of a pipeline that waits with all queues full.

    Measured on 2.10, within a tenth: the last operator holds `prefetch` batches and each batcher two more, each decoder
    `prefetch` samples on either side; the rest does not depend on them.
    """
    samples = prefetch * workers * (demand.row_bytes + 2 * demand.sample_bytes)
    return FIXED_BYTES + samples + (prefetch + 2 * batchers) * demand.batch_size * demand.sample_bytes


def _workers(workers: int | None, cores: int, host_cores: int) -> tuple[int, str]:
    if workers is None:
        return cores, "one per core"
    if workers > host_cores:
        return host_cores, f"lowered: MindSpore refuses more than the {host_cores} cores of the host"
    if workers > cores:
        return workers, f"asked for, though this process may use {cores} of the host's {host_cores} cores"
    return workers, "asked for"


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
            f"reading {demand.files} files at once takes {needed} open files, and the hard limit is {open_files}; "
            f"raise it ('ulimit -Hn', as root or in limits.conf), or shard into fewer files with a larger --shard-size"
        )
    return readers, needed


def _gigabytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
