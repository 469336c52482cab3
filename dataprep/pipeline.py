"""The main path of `dataprep shard`: scan, plan, build what is missing, seal."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from dataprep.engines import ENGINES
from dataprep.errors import DataprepError, DataRefused
from dataprep.item import Reject
from dataprep.mindrecord.format import Geometry
from dataprep.options import ShardOptions
from dataprep.plan import Plan, PlannedShard, make_plan
from dataprep.receipt import Moments, Receipt, Task
from dataprep.sources import SOURCES, detect_layout
from dataprep.target import check_options, check_space, check_target, completed
from dataprep.workdir import Workdir
from dataprep.worker import PagesTooSmall, build_shard
from schemas.dataset import Dataset, PixelStats, Split
from schemas.record import load_schema


class Progress(Protocol):
    """Hears how far a job is; the terminal belongs to the caller."""

    def scanning(self, found: int) -> None:
        """So many files have been found."""

    def planned(self, plan: Plan, missing: list[PlannedShard]) -> None:
        """The shards to build are known."""

    def built(self, receipt: Receipt, planned: PlannedShard) -> None:
        """A shard is in place."""


@dataclass(frozen=True)
class Summary:
    """What a finished job has made. `built` counts the shards of this run, `seconds` its time."""

    out: str
    digest: str
    found: int
    written: int
    rejected: dict[str, int]
    ignored: dict[str, int]
    changed: dict[str, int]
    splits: dict[str, int]
    classes: int
    shards: int
    built: int
    seconds: float
    already_complete: bool = False


def shard(source: Path, out: Path, options: ShardOptions, progress: Progress) -> Summary:
    """Turn the images below `source` into a sealed dataset in `out`; run again after a kill, it goes on.

    Raises DataprepError for a mistake, DataRefused when too many files were refused, TryLater when another job
    holds `out`. Whatever is raised, no dataset.json is left that says more than is there.
    """
    started = time.monotonic()
    source = source.absolute()
    done = completed(out, str(source), options)
    if done:
        return summarise(out, done, built=0, seconds=time.monotonic() - started, already_complete=True)
    check_target(out, source)
    with Workdir(out) as work:
        with closing(open_plan(work, source, options, progress)) as plan:
            check_space(out, plan.bytes - sum(receipt.shard.bytes for receipt in work.receipts().values()))
            work.log("start", pid=os.getpid(), options=options.deciding(), workers=worker_count(options))
            built = _build(plan, work, options, progress)
            dataset = _seal(plan, work, options)
        seconds = time.monotonic() - started
        work.log("sealed", digest=dataset.digest, rows=dataset.written, seconds=round(seconds, 3))
    return summarise(out, dataset, built=built, seconds=seconds)


def worker_count(options: ShardOptions) -> int:
    """Worker processes: as asked, else the cores this process may use."""
    return options.workers or len(os.sched_getaffinity(0))


def scan(source: Path, layout: str, options: ShardOptions, progress: Progress) -> Iterator[Any]:
    """Everything below `source`, told to `progress` now and then."""
    for count, found in enumerate(SOURCES[layout](source, options.walk)):
        if count % 1000 == 0:
            progress.scanning(count)
        yield found


def choose_layout(source: Path, options: ShardOptions) -> str:
    """The layout as asked or detected; raises DataprepError when SOURCE cannot be read."""
    found = detect_layout(source, options.walk)
    return found if options.layout == "auto" else options.layout


def open_plan(work: Workdir, source: Path, options: ShardOptions, progress: Progress) -> Plan:
    """The saved plan of an earlier run of the same job, else a new one."""
    if not work.plan.is_file():
        layout = choose_layout(source, options)
        found = scan(source, layout, options, progress)
        work.save_plan(lambda path: make_plan(path, found, str(source), layout, options))
    plan = Plan.open(work.plan)
    check_options(plan, str(source), options, work.out)
    return plan


def _build(plan: Plan, work: Workdir, options: ShardOptions, progress: Progress) -> int:
    """Build the shards that have no receipt, until none is missing; the number built."""
    built = 0
    while missing := _missing(plan, work):
        progress.planned(plan, missing)
        with ENGINES[options.engine](min(worker_count(options), len(missing))) as executor:
            try:
                for receipt, planned in _results(executor, _tasks(plan, work, options, missing), options):
                    work.commit(receipt)
                    progress.built(receipt, planned)
                    built += 1
            except PagesTooSmall as error:
                # Pages only ever grow, so the size that all rows fit is the same whichever shard asks first.
                work.save_page_size(error.split, error.page_size)
    return built


def _missing(plan: Plan, work: Workdir) -> list[PlannedShard]:
    receipts = work.receipts()
    geometry = _geometry(plan, work)
    return [
        planned
        for planned in plan.shards
        if planned.name not in receipts or receipts[planned.name].geometry != geometry[planned.split]
    ]


def _geometry(plan: Plan, work: Workdir) -> dict[str, Geometry]:
    """Header and page size of each split: as planned, or larger where that turned out too small."""
    larger = work.page_sizes()
    planned = {split: plan.geometry(split) for split in plan.splits()}
    return {split: replace(size, page_size=larger.get(split, size.page_size)) for split, size in planned.items()}


def _tasks(plan: Plan, work: Workdir, options: ShardOptions, missing: list[PlannedShard]) -> Iterator[Task]:
    schema = load_schema(options.schema)
    geometry = _geometry(plan, work)
    names = {split: tuple(shard.name for shard in shards) for split, shards in plan.splits().items()}
    for planned in missing:
        yield Task(
            shard=planned,
            names=names[planned.split],
            plan=work.plan.absolute(),
            source=plan.source,
            attempts=work.attempts.absolute(),
            schema=schema,
            classes=len(plan.classes),
            geometry=geometry[planned.split],
            policy=options.policy,
        )


def _results(
    executor: Executor, tasks: Iterator[Task], options: ShardOptions
) -> Iterator[tuple[Receipt, PlannedShard]]:
    """Receipts in the order in which they come. At most two tasks a worker are in flight."""
    running: dict[Future[Receipt], PlannedShard] = {}
    try:
        while True:
            while len(running) < 2 * worker_count(options) and (task := next(tasks, None)):
                running[executor.submit(build_shard, task)] = task.shard
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                planned = running.pop(future)
                yield future.result(), planned
    except BrokenProcessPool:
        raise DataprepError(
            "a worker process was killed (out of memory?); run the same command again, or with fewer --workers"
        ) from None


def _seal(plan: Plan, work: Workdir, options: ShardOptions) -> Dataset:
    """Check that nothing is lost and the budget holds, then write the manifest."""
    receipts = work.receipts()
    ordered = [receipts[planned.name] for planned in plan.shards]
    rejects = sorted([*plan.rejects(), *(r for receipt in ordered for r in receipt.rejects)], key=lambda r: r.key)
    dataset = _dataset(plan, options, ordered, Counter(reject.reason for reject in rejects))
    lost = dataset.found - dataset.written - len(rejects) - sum(dataset.ignored.values())
    if lost:
        raise AssertionError(f"{lost} files were found and neither written, rejected nor ignored")
    _check_budget(options, rejects, dataset, work)
    work.seal(dataset, rejects)
    return dataset


def _check_budget(options: ShardOptions, rejects: list[Reject], dataset: Dataset, work: Workdir) -> None:
    candidates = dataset.written + len(rejects)
    if dataset.written and options.max_rejects.allows(len(rejects), candidates):
        return
    listed = work.save_rejects(rejects)
    advice = _advice(rejects)
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(dataset.rejected.items()))
    if not dataset.written:
        raise DataRefused(f"none of {candidates} files could be written ({reasons}); they are listed in {listed}{advice}")
    raise DataRefused(
        f"{len(rejects)} of {candidates} files were refused ({reasons}), more than --max-rejects {options.max_rejects} "
        f"allows; nothing is sealed. They are listed in {listed}{advice}; the same command with a larger --max-rejects "
        "seals what was built"
    )


def _advice(rejects: list[Reject]) -> str:
    """What to do about files of a kind that nobody meant to train on, such as SVGs beside their PNGs."""
    endings = Counter(os.path.splitext(reject.key)[1] for reject in rejects if reject.reason in _OTHER_KIND)
    ending, count = endings.most_common(1)[0] if endings else ("", 0)
    return f"; --ignore '*{ending}' --restart leaves out {count} of them" if ending else ""


_OTHER_KIND = ("unsupported_format", "not_an_image")


def _dataset(plan: Plan, options: ShardOptions, receipts: list[Receipt], rejected: Counter[str]) -> Dataset:
    changed: Counter[str] = Counter()
    moments = Moments()
    for receipt in receipts:
        changed.update(receipt.changed)
        moments.add(receipt.moments.images, receipt.moments.mean, receipt.moments.square)
    return Dataset(
        schema=load_schema(options.schema),
        classes=plan.classes,
        splits={split: _split(receipts, split, len(plan.classes)) for split in plan.splits()},
        found=plan.found,
        rejected=rejected,
        ignored=plan.ignored,
        changed=changed,
        policy=asdict(options.policy),
        plan={"layout": plan.layout, "options": options.deciding()},
        pixels=_pixels(moments),
    )


def _split(receipts: list[Receipt], name: str, classes: int) -> Split:
    own = [receipt for receipt in receipts if receipt.split == name]
    rows = [sum(receipt.class_rows[label] for receipt in own) for label in range(classes)]
    return Split(class_rows=tuple(rows), shards=tuple(receipt.shard for receipt in own))


def _pixels(moments: Moments) -> PixelStats | None:
    if not moments.images:
        return None
    mean = [value / moments.images for value in moments.mean]
    square = [value / moments.images for value in moments.square]
    std = [max(0.0, s - m * m) ** 0.5 for m, s in zip(mean, square, strict=True)]
    # Six decimals are far below what a sample can tell.
    m, s = [round(v, 6) for v in mean], [round(v, 6) for v in std]
    return PixelStats((m[0], m[1], m[2]), (s[0], s[1], s[2]), moments.images)


def summarise(out: Path, dataset: Dataset, built: int, seconds: float, already_complete: bool = False) -> Summary:
    """The summary of a sealed dataset."""
    return Summary(
        out=str(out),
        digest=dataset.digest,
        found=dataset.found,
        written=dataset.written,
        rejected=dict(dataset.rejected),
        ignored=dict(dataset.ignored),
        changed=dict(dataset.changed),
        splits={name: split.rows for name, split in dataset.splits.items()},
        classes=len(dataset.classes),
        shards=sum(len(split.shards) for split in dataset.splits.values()),
        built=built,
        seconds=round(seconds, 3),
        already_complete=already_complete,
    )
