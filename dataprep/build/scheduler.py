"""Build, check and commit all shards of a plan that have no receipt."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from dataprep.build.absence import TRANSIENT, Presence, paths_below
from dataprep.build.decode_check.dispatch import (
    DecodeCheck,
    DecodeCheckOptions,
    DecodeResult,
    distributed_decode_check,
    local_decode_check,
    no_decode_check,
)
from dataprep.build.decode_check.supervisor import Fault
from dataprep.build.engines import ENGINES
from dataprep.build.engines.local import TaskKilled, WorkerPool
from dataprep.build.interrupts import deferred
from dataprep.build.kill_points import kill_point
from dataprep.build.progress import Progress
from dataprep.build.receipt import ROWS, Receipt, Task, noted_rows
from dataprep.build.workdir import Workdir
from dataprep.build.worker import PagesTooSmall, build_shard, decode_timeout
from dataprep.errors import DataprepError, TryLater
from dataprep.items import NotCopied
from dataprep.mindrecord.format import Geometry
from dataprep.options import ShardOptions
from dataprep.plan.sizes import fitting_workers
from dataprep.plan.store import Plan, PlannedShard
from schemas.process.host import host_cores, usable_cores, usable_memory
from schemas.process.memory import MemoryShortage

# The job ends after this many consecutive worker deaths on one shard.
MAX_DEATHS = 2
# An image is rejected after this many workers exceeded the decode deadline on it.
MAX_TIMEOUTS = 2
POLL_S = 0.5  # interval of progress updates


class WorkerDied(Exception):
    """A worker process was killed. `shards` were being built at that moment."""

    def __init__(self, shards: list[str]) -> None:
        super().__init__(shards)
        self.shards = shards


@dataclass
class Built:
    """Names of the shards that were built, and worker seconds per stage.

    For the stages see Receipt; `prove` is the decode check. A shard that was built twice counts once. `not_copied` are
    rejected files that could not be copied to --quarantine.
    """

    names: set[str] = field(default_factory=set)
    seconds: Counter[str] = field(default_factory=Counter)
    not_copied: NotCopied = field(default_factory=dict)

    @property
    def shards(self) -> int:
        """Number of shards that were built."""
        return len(self.names)

    def add(self, receipt: Receipt, checked: DecodeResult) -> None:
        """Count a committed shard."""
        self.names.add(receipt.shard.name)
        self.seconds.update(receipt.seconds)
        self.seconds["prove"] += checked.seconds  # type: ignore[assignment]  # a Counter of floats

    def __add__(self, other: "Built") -> "Built":
        return Built(self.names | other.names, self.seconds + other.seconds)


def worker_count(plan: Plan, options: ShardOptions) -> int:
    """Return --workers, or the number of worker processes that the usable cores and memory allow."""
    if options.workers:
        return options.workers
    return fitting_workers(usable_cores(), usable_memory(), plan.largest_bytes, options.prove != "off")


def build_missing(
    plan: Plan, work: Workdir, options: ShardOptions, progress: Progress, presence: Presence | None = None
) -> Built:
    """Build every shard that has no receipt.

    Raises DataprepError if that is not possible, TryLater if files disappear because SOURCE is unavailable (see
    `presence`).
    """
    built = Built()
    deaths: Counter[str] = Counter()
    while missing := missing_shards(plan, work):
        # Build a shard whose worker died alone, so that the next death identifies the shard.
        alone = [shard for shard in missing if deaths[shard.name]][:1]
        progress.planned(plan, causes(plan, work, missing, deaths))
        try:
            _build(plan, work, options, progress, alone or missing, built, presence)
        except PagesTooSmall as error:
            # Page sizes only grow, so the result does not depend on which shard is built first.
            work.add_notes("pages", {error.split: error.page_size})
        except WorkerDied as error:
            unexplained = [name for name in error.shards if not _exclude_slow(name, options, work, deaths)]
            _count_deaths(unexplained, deaths, work)
        except MemoryShortage as error:
            if [shard.name for shard in alone] == [error.shard]:
                raise TryLater(_out_of_memory(error)) from None
            deaths[error.shard] += 1
        for shard in alone:
            deaths[shard.name] *= shard.name not in work.receipts()
    return built


def _build(
    plan: Plan, work: Workdir, options: ShardOptions, progress: Progress, shards: list[PlannedShard], built: Built,
    presence: Presence | None,
) -> None:  # fmt: skip
    """Build `shards` and add them to `built`. A shard with undecodable images is left for the next round."""
    workers = min(worker_count(plan, options), len(shards))
    engine = ENGINES[options.engine](options, workers, plan.base, work.attempts.absolute())
    with engine as pool, _decode_check(work, options, pool) as decode_check:
        if pool.fallback:
            progress.fallback(pool.fallback)
            work.log("fallback", why=pool.fallback)
        results = _results(pool, make_tasks(plan, work, options, shards, pool.killable), decode_check, work, progress)
        for receipt, checked, planned in results:
            kill_point("prove.done")
            missed = [reject.key for reject in receipt.rejects if reject.reason in TRANSIENT]
            if missed and presence:
                presence.require(paths_below(plan, planned, missed))
            if checked.faults:
                work.exclude(planned.name, _keys(receipt, checked.faults))
                work.drop(receipt)
                continue
            receipt.warnings.update(checked.warnings)
            work.commit(receipt)
            progress.built(receipt, planned)
            built.add(receipt, checked)


def _decode_check(work: Workdir, options: ShardOptions, pool: WorkerPool) -> AbstractContextManager[DecodeCheck]:
    if options.prove == "off":
        return nullcontext(no_decode_check)
    # MindSpore rejects more threads than cores. If the workers run the check, each of them has a child.
    threads = 1 if pool.checks_decoding else min(pool.workers(), host_cores())
    decode = "strip" if options.prove == "decode" else None
    keep = options.warnings == "keep"
    check = DecodeCheckOptions(
        options.record_schema(), work.attempts.absolute(), decode, threads, options.deadline, keep
    )
    return distributed_decode_check(check, pool.executor) if pool.checks_decoding else local_decode_check(check)


def _results(
    pool: WorkerPool, tasks: Iterator[Task], decode_check: DecodeCheck, work: Workdir, progress: Progress
) -> Iterator[tuple[Receipt, DecodeResult, PlannedShard]]:
    """Yield shards when they are built and checked. Building and checking run in parallel."""
    building: dict[Future[Receipt], PlannedShard] = {}
    checking: dict[Future[DecodeResult], tuple[Receipt, PlannedShard]] = {}
    try:
        while True:
            # No signal may be raised while concurrent.futures holds a lock. The serial engine takes no lock, and its
            # submit builds a whole shard.
            with deferred() if pool.killable else nullcontext():
                while len(building) + len(checking) < 2 * pool.workers() + 1 and (task := next(tasks, None)):
                    building[pool.executor.submit(build_shard, task)] = task.shard
                waiting: list[Future[Any]] = [*building, *checking]
                if not waiting:
                    return
                done = wait(waiting, POLL_S, FIRST_COMPLETED).done
            at_work = work.under_way({planned.name for planned in building.values()})
            progress.under_way(at_work + sum(planned.items for _, planned in checking.values()))
            with deferred():
                for future in done & building.keys():
                    planned = building[future]
                    receipt = future.result()
                    del building[future]
                    checking[decode_check(receipt)] = receipt, planned
                results = [(*checking.pop(future), future.result()) for future in done & checking.keys()]
            for receipt, planned, result in results:
                yield receipt, result, planned
    except TaskKilled:
        raise WorkerDied([planned.name]) from None
    except BrokenExecutor:
        raise WorkerDied([planned.name for planned in building.values()]) from None


def _exclude_slow(shard: str, options: ShardOptions, work: Workdir, deaths: Counter[str]) -> bool:
    """Exclude images of `shard` that repeatedly exceeded the decode deadline. Return True if there are any."""
    known = work.notes("excluded").get(shard, {})
    slow = [key for key, times in work.timeouts(shard).items() if times >= MAX_TIMEOUTS and key not in known]
    if slow:
        refusal = decode_timeout(options.deadline)
        work.exclude(shard, dict.fromkeys(slow, (refusal.reason, refusal.detail)))
        deaths[shard] = 0
    return bool(slow)


def _out_of_memory(error: MemoryShortage) -> str:
    image = f", at '{error.key}'" if error.key else ""
    return (
        f"memory could not be allocated while {error.shard} was built alone{image} ({error.detail}); raise the limit "
        "(`ulimit -v`, the memory of the batch job), or reject large images with a smaller --max-pixels and --restart; "
        "the same command resumes"
    )


def _count_deaths(shards: list[str], deaths: Counter[str], work: Workdir) -> None:
    deaths.update(shards)
    for shard in shards:
        if len(shards) == 1 and deaths[shard] >= MAX_DEATHS:
            key = work.suspect(shard)
            at_file = f" at '{key}'; exclude that file with --ignore '{key}' --restart" if key else ""
            raise DataprepError(
                f"{deaths[shard]} worker processes were killed while they built {shard}{at_file}, "
                "or give the job more memory or fewer --workers; the same command resumes"
            )


def missing_shards(plan: Plan, work: Workdir) -> list[PlannedShard]:
    """Return the shards without a receipt, or built with outdated page sizes or exclusions."""
    receipts = work.receipts()
    sizes = geometry(plan, work)
    excluded = work.notes("excluded")
    return [
        shard
        for shard in plan.shards
        if shard.name not in receipts
        or receipts[shard.name].geometry != sizes[shard.split]
        or receipts[shard.name].excluded != sorted(excluded.get(shard.name, {}))
    ]


def causes(plan: Plan, work: Workdir, missing: list[PlannedShard], deaths: Counter[str]) -> dict[PlannedShard, str]:
    """Return the reason to build each shard. `deaths` counts worker deaths per shard in this run."""
    receipts, sizes = work.receipts(), geometry(plan, work)
    fixed = work.notes("fixed")

    def cause(shard: PlannedShard) -> str:
        receipt = receipts.get(shard.name)
        if receipt is not None:
            return (
                "pages too small" if receipt.geometry != sizes[shard.split] else "to exclude bad or duplicate images"
            )
        if deaths[shard.name]:
            return "worker process killed or short of memory"
        why = work.why_missing(shard.name)
        if why == "not built yet" and work.notes("excluded").get(shard.name):
            return "to exclude bad or duplicate images"
        return "to check rejected files again" if why == "not built yet" and shard.name in fixed else why

    return {shard: cause(shard) for shard in missing}


def geometry(plan: Plan, work: Workdir) -> dict[str, Geometry]:
    """Return the header and page size per split. They are as planned, or larger if rows did not fit."""
    larger = work.notes("pages")
    planned = {split: plan.geometry(split) for split in plan.splits()}
    return {split: replace(size, page_size=larger.get(split, size.page_size)) for split, size in planned.items()}


def make_tasks(
    plan: Plan, work: Workdir, options: ShardOptions, shards: list[PlannedShard], killable: bool = True
) -> Iterator[Task]:
    """Yield the task of each shard, with the current page sizes and exclusions."""
    schema = options.record_schema()
    sizes = geometry(plan, work)
    names = {split: tuple(shard.name for shard in members) for split, members in plan.splits().items()}
    excluded, fixed = work.notes("excluded"), work.notes("fixed")
    for shard in shards:
        yield Task(
            shard=shard,
            names=names[shard.split],
            plan=work.plan.absolute(),
            source=plan.base,
            attempts=work.attempts.absolute(),
            schema=schema,
            classes=plan.classes,
            boxes=options.boxes,
            ignore_value=options.ignore_value,
            geometry=sizes[shard.split],
            policy=options.policy,
            deadline_s=options.deadline,
            decoded_later=options.prove == "decode",
            killable=killable,
            excluded={key: (reason, detail) for key, (reason, detail) in excluded.get(shard.name, {}).items()},
            fixed={key: (size, mtime_ns) for key, (size, mtime_ns) in fixed.get(shard.name, {}).items()},
        )


def _keys(receipt: Receipt, faults: list[Fault]) -> dict[str, tuple[str, str]]:
    assert receipt.attempt is not None
    by_row = {fault.row: (fault.reason, fault.detail) for fault in faults}
    rows = enumerate(noted_rows(receipt.attempt / ROWS))
    return {row.key: by_row[number] for number, row in rows if number in by_row}
