"""Builds, proves and commits the shards of a plan that have no receipt yet, until none is missing."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from dataprep.build.absence import TRANSIENT, Presence
from dataprep.build.decode_check.dispatch import Proof, Prove, ProveOptions, proving_here, proving_there, unproved
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
from schemas.record import load_schema

# A shard on which so many workers have died in a row is not tried again.
MAX_DEATHS = 2
# An image on which so many fresh workers have spent the deadline is rejected.
MAX_TIMEOUTS = 2
LOOK_S = 0.5  # between two looks at how far the workers are


class WorkerDied(Exception):
    """A worker process was killed; the shards that were being built then."""

    def __init__(self, shards: list[str]) -> None:
        super().__init__(shards)
        self.shards = shards


@dataclass
class Built:
    """Which shards were built, and the seconds of all workers by what they went into, see Receipt; `prove` is the
    time that the proof took, wherever it ran. A shard that was built twice counts once. `not_copied` are refused files
    that could not be copied to --quarantine.
    """

    names: set[str] = field(default_factory=set)
    seconds: Counter[str] = field(default_factory=Counter)
    not_copied: NotCopied = field(default_factory=dict)

    @property
    def shards(self) -> int:
        """How many shards were built."""
        return len(self.names)

    def add(self, receipt: Receipt, proof: Proof) -> None:
        """Count one more."""
        self.names.add(receipt.shard.name)
        self.seconds.update(receipt.seconds)
        self.seconds["prove"] += proof.seconds  # type: ignore[assignment]  # a Counter of floats

    def __add__(self, other: "Built") -> "Built":
        return Built(self.names | other.names, self.seconds + other.seconds)


def worker_count(plan: Plan, options: ShardOptions) -> int:
    """Worker processes: as asked, else as many as the cores and the memory that this process may use can feed."""
    if options.workers:
        return options.workers
    return fitting_workers(usable_cores(), usable_memory(), plan.largest_bytes, options.prove != "off")


def build_missing(
    plan: Plan, work: Workdir, options: ShardOptions, progress: Progress, presence: Presence | None = None
) -> Built:
    """Build every shard that has no receipt. Raises DataprepError where that cannot be done, and TryLater, with
    nothing noted, when files vanish and `presence` says that SOURCE is away.
    """
    built = Built()
    deaths: Counter[str] = Counter()
    while missing := missing_shards(plan, work):
        # A shard whose worker died is built alone, so that the next death says whose fault it is.
        alone = [shard for shard in missing if deaths[shard.name]][:1]
        progress.planned(plan, causes(plan, work, missing, deaths))
        try:
            _build(plan, work, options, progress, alone or missing, built, presence)
        except PagesTooSmall as error:
            # Pages only ever grow, so the size that all rows fit is the same whichever shard asks first.
            work.keep("pages", {error.split: error.page_size})
        except WorkerDied as error:
            blameless = [name for name in error.shards if not _exclude_slow(name, options, work, deaths)]
            _count_deaths(blameless, deaths, work)
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
    """Build these shards and count them in `built`. One found to hold faulty images is left for the next round."""
    workers = min(worker_count(plan, options), len(shards))
    engine = ENGINES[options.engine](options, workers, plan.source, work.attempts.absolute())
    with engine as crew, _proving(work, options, crew) as prove:
        if crew.fallback:
            progress.fallback(crew.fallback)
            work.log("fallback", why=crew.fallback)
        results = _results(crew, _tasks(plan, work, options, shards, crew.killable), prove, work, progress)
        for receipt, proof, planned in results:
            kill_point("prove.done")
            missed = [reject.key for reject in receipt.rejects if reject.reason in TRANSIENT]
            if missed and presence:
                presence.require(missed)
            if proof.faults:
                work.exclude(planned.name, _keys(receipt, proof.faults))
                work.drop(receipt)
                continue
            receipt.warnings.update(proof.warnings)
            work.commit(receipt)
            progress.built(receipt, planned)
            built.add(receipt, proof)


def _proving(work: Workdir, options: ShardOptions, crew: WorkerPool) -> AbstractContextManager[Prove]:
    if options.prove == "off":
        return nullcontext(unproved)
    # More threads than cores are an error in MindSpore. A worker that proves what it builds is one of many.
    threads = 1 if crew.proves else min(crew.workers(), host_cores())
    decode = "strip" if options.prove == "decode" else None
    keep = options.warnings == "keep"
    manner = ProveOptions(options.schema, work.attempts.absolute(), decode, threads, options.deadline, keep)
    return proving_there(manner, crew.executor) if crew.proves else proving_here(manner)


def _results(
    crew: WorkerPool, tasks: Iterator[Task], prove: Prove, work: Workdir, progress: Progress
) -> Iterator[tuple[Receipt, Proof, PlannedShard]]:
    """Shards as they are built and proved. A few are under way at a time; the next are built while one is proved."""
    building: dict[Future[Receipt], PlannedShard] = {}
    proving: dict[Future[Proof], tuple[Receipt, PlannedShard]] = {}
    try:
        while True:
            # A signal must not be raised while a lock of concurrent.futures is held. The serial engine has none, and
            # builds a whole shard within submit.
            with deferred() if crew.killable else nullcontext():
                while len(building) + len(proving) < 2 * crew.workers() + 1 and (task := next(tasks, None)):
                    building[crew.executor.submit(build_shard, task)] = task.shard
                waiting: list[Future[Any]] = [*building, *proving]
                if not waiting:
                    return
                done = wait(waiting, LOOK_S, FIRST_COMPLETED).done
            at_work = work.under_way({planned.name for planned in building.values()})
            progress.under_way(at_work + sum(planned.items for _, planned in proving.values()))
            with deferred():
                for future in done & building.keys():
                    planned = building[future]
                    receipt = future.result()
                    del building[future]
                    proving[prove(receipt)] = receipt, planned
                proofs = [(*proving.pop(future), future.result()) for future in done & proving.keys()]
            for receipt, planned, proof in proofs:
                yield receipt, proof, planned
    except TaskKilled:
        raise WorkerDied([planned.name]) from None
    except BrokenExecutor:
        raise WorkerDied([planned.name for planned in building.values()]) from None


def _exclude_slow(shard: str, options: ShardOptions, work: Workdir, deaths: Counter[str]) -> bool:
    """Have `shard` built without the images that took too long to decode each time; return True if there are any."""
    known = work.found("excluded").get(shard, {})
    slow = [key for key, times in work.timeouts(shard).items() if times >= MAX_TIMEOUTS and key not in known]
    if slow:
        refusal = decode_timeout(options.deadline)
        work.exclude(shard, dict.fromkeys(slow, (refusal.reason, refusal.detail)))
        deaths[shard] = 0
    return bool(slow)


def _out_of_memory(error: MemoryShortage) -> str:
    at_hand = f", at '{error.key}'" if error.key else ""
    return (
        f"memory could not be allocated while {error.shard} was built alone{at_hand} ({error.detail}); raise the limit "
        "(`ulimit -v`, the memory of the batch job), or reject large images with a smaller --max-pixels and --restart; "
        "the same command goes on"
    )


def _count_deaths(shards: list[str], deaths: Counter[str], work: Workdir) -> None:
    deaths.update(shards)
    for shard in shards:
        if len(shards) == 1 and deaths[shard] >= MAX_DEATHS:
            key = work.suspect(shard)
            named = f" over '{key}'; leave that file out with --ignore '{key}' --restart" if key else ""
            raise DataprepError(
                f"{deaths[shard]} worker processes were killed while they built {shard}{named}, "
                "or give the job more memory or fewer --workers; the same command goes on"
            )


def missing_shards(plan: Plan, work: Workdir) -> list[PlannedShard]:
    """The shards that have no receipt, or were built before it turned out how they must be built."""
    receipts = work.receipts()
    sizes = geometry(plan, work)
    excluded = work.found("excluded")
    return [
        shard
        for shard in plan.shards
        if shard.name not in receipts
        or receipts[shard.name].geometry != sizes[shard.split]
        or receipts[shard.name].excluded != sorted(excluded.get(shard.name, {}))
    ]


def causes(plan: Plan, work: Workdir, missing: list[PlannedShard], deaths: Counter[str]) -> dict[PlannedShard, str]:
    """Why each of these shards has to be built. `deaths` counts the workers that died on a shard in this run."""
    receipts, sizes = work.receipts(), geometry(plan, work)
    mended = work.found("mended")

    def cause(shard: PlannedShard) -> str:
        receipt = receipts.get(shard.name)
        if receipt is not None:
            return (
                "pages too small" if receipt.geometry != sizes[shard.split] else "to leave out faulty or equal images"
            )
        if deaths[shard.name]:
            return "worker process killed or short of memory"
        why = work.why_missing(shard.name)
        if why == "not built yet" and work.found("excluded").get(shard.name):
            return "to leave out faulty or equal images"
        return "to look at refused files again" if why == "not built yet" and shard.name in mended else why

    return {shard: cause(shard) for shard in missing}


def geometry(plan: Plan, work: Workdir) -> dict[str, Geometry]:
    """Header and page size of each split: as planned, or larger where that turned out too small."""
    larger = work.found("pages")
    planned = {split: plan.geometry(split) for split in plan.splits()}
    return {split: replace(size, page_size=larger.get(split, size.page_size)) for split, size in planned.items()}


def _tasks(
    plan: Plan, work: Workdir, options: ShardOptions, shards: list[PlannedShard], killable: bool = True
) -> Iterator[Task]:
    schema = load_schema(options.schema)
    sizes = geometry(plan, work)
    names = {split: tuple(shard.name for shard in members) for split, members in plan.splits().items()}
    excluded, mended = work.found("excluded"), work.found("mended")
    for shard in shards:
        yield Task(
            shard=shard,
            names=names[shard.split],
            plan=work.plan.absolute(),
            source=plan.source,
            attempts=work.attempts.absolute(),
            schema=schema,
            classes=len(plan.classes),
            geometry=sizes[shard.split],
            policy=options.policy,
            deadline_s=options.deadline,
            decoded_later=options.prove == "decode",
            killable=killable,
            excluded={key: (reason, detail) for key, (reason, detail) in excluded.get(shard.name, {}).items()},
            mended={key: (size, mtime_ns) for key, (size, mtime_ns) in mended.get(shard.name, {}).items()},
        )


def _keys(receipt: Receipt, faults: list[Fault]) -> dict[str, tuple[str, str]]:
    assert receipt.attempt is not None
    by_row = {fault.row: (fault.reason, fault.detail) for fault in faults}
    rows = enumerate(noted_rows(receipt.attempt / ROWS))
    return {row.key: by_row[number] for number, row in rows if number in by_row}
