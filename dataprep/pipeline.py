"""The main path of `dataprep shard`: scan, plan, build what is missing, look for duplicates, seal."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from dataprep.build.absence import Presence, look_again
from dataprep.build.engines import check_engine
from dataprep.build.progress import Progress
from dataprep.build.scheduler import Built, build_missing, worker_count
from dataprep.build.software import software
from dataprep.build.workdir import Workdir
from dataprep.disk import disk_errors, sqlite_scratch, uninterrupted
from dataprep.errors import SourceEmpty, TryLater
from dataprep.items import ScanEntry, portable_path
from dataprep.job import duplicates
from dataprep.job.duplicates import Duplicate
from dataprep.job.existing_set import (
    NOTHING,
    Existing,
    check_present,
    check_replacement,
    file_names,
    no_job,
    replaced_set,
    restart,
    retried,
    shard_names,
    still_sealed,
    unfinished,
    unstable_source,
)
from dataprep.job.preflight import (
    check_inputs,
    check_options,
    check_schema,
    check_space,
    check_target,
    completed,
    is_planned_path,
)
from dataprep.job.scan import choose_layout, scan
from dataprep.job.seal import seal
from dataprep.job.swap import RESTART, RETRY, begin, check_settled, finish, is_pending, settle
from dataprep.options import ShardOptions
from dataprep.plan.planner import make_plan
from dataprep.plan.store import Plan
from schemas.dataset import Dataset
from schemas.layout import PLAN, WORK

REBUILDS = 3  # attempts to build shards while files of SOURCE disappear and reappear


@dataclass(frozen=True)
class Summary:
    """The result of a finished job.

    `built` is the number of shards built in this run, `seconds` is its duration. `stages` has the seconds per stage
    (see Built). `unfinished` names files that an interrupted command has left in .work. `not_copied` has the rejected
    files that could not be copied to --quarantine, with the problem.
    """

    out: str
    digest: str
    found: int
    written: int
    rejected: dict[str, int]
    ignored: dict[str, int]
    changed: dict[str, int]
    warnings: dict[str, int]
    duplicates: dict[str, int]
    splits: dict[str, int]
    classes: int
    shards: int
    built: int
    seconds: float
    stages: dict[str, float]
    already_complete: bool = False
    unfinished: str | None = None
    not_copied: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Job:
    """One call of `shard`."""

    source: Path
    options: ShardOptions
    existing: Existing
    progress: Progress
    started: float
    replaced: Dataset | None = None  # the sealed dataset in OUT, to be replaced


def shard(source: Path, out: Path, options: ShardOptions, progress: Progress, existing: Existing = NOTHING) -> Summary:
    """Turn the images below `source` into a sealed dataset in `out`. If it is called again after a kill, it resumes.

    A sealed dataset that is replaced remains unchanged until the new one is complete. dataset.json never describes
    files that do not exist. Raises DataprepError for wrong options, DataRejected for too many rejected files, and
    TryLater if another job holds `out`, its disk is full, or SOURCE is absent.
    """
    job = _Job(source.absolute(), options, existing, progress, time.monotonic())
    with disk_errors(out):
        return uninterrupted(out, partial(_shard, out, job))


def _shard(out: Path, job: _Job) -> Summary:
    options, existing = job.options, job.existing
    settle(out)
    beside = existing.beside(out)
    old = replaced_set(out) if beside else None
    with still_sealed(out) if old else nullcontext(), disk_errors(out):
        check_schema(options)
        done = None if beside else completed(out, options, partial(_check_moved, out, job))
        if done:
            if existing.retry_rejects:  # there are no rejects: at least check SOURCE
                _check_unchanged(out, job)
            return summarise(out, done, Built(), job.started, already_complete=True)
        check_target(out, job.source, options.quarantine, file_names(old) if old else frozenset())
        check_engine(options.engine)
        check_source(job.source, out, options)
        with Workdir(out) as work, sqlite_scratch(work.folder):
            check_settled(out)
            dataset, built = _replace(work, beside, old, job) if beside and old else _build(work, work, job)
    return summarise(out, dataset, built, job.started)


def _check_unchanged(out: Path, job: _Job) -> None:
    """Raise DataprepError if SOURCE has changed since the dataset in `out` was planned."""
    work = Workdir(out)
    if not work.plan.is_file():
        raise no_job(out)
    with closing(Plan.open(work.plan)) as plan, sqlite_scratch(work.folder):
        _compare_files(out, job, plan)


def _check_moved(out: Path, job: _Job, plan: Plan) -> None:
    """Raise DataprepError if SOURCE has another path and other files than in the plan of `out`."""
    if not is_planned_path(plan, portable_path(job.source)):
        choose_layout(job.source, job.options)
        with sqlite_scratch(Workdir(out).folder):
            _compare_files(out, job, plan)
        job.progress.moved(plan.source, portable_path(job.source))


def _compare_files(out: Path, job: _Job, plan: Plan) -> None:
    presence = Presence(job.source, job.options.deadline)
    rescan = partial(scan, job.source, plan.layout, job.options, job.progress, presence)
    check_inputs(plan, portable_path(job.source), Workdir(out).notes("fixed"), rescan, out, presence)


def _build(work: Workdir, held: Workdir, job: _Job) -> tuple[Dataset, Built]:
    """Plan, build the missing shards and seal, in `work`.

    `work` is OUT, or a folder in .work of OUT, which is `held`.
    """
    options = job.options
    shutil.rmtree(work.folder / RESTART, ignore_errors=True)  # of a --restart that was killed while planning
    presence = Presence(job.source, options.deadline)
    with closing(open_plan(work, held, job, presence)) as plan:
        built_before = sum(receipt.shard.bytes for receipt in work.receipts().values())
        check_space(held.out, plan.bytes - built_before, beside=work is not held)
        workers = worker_count(plan, options)
        work.log("start", pid=os.getpid(), options=options.deciding(), workers=workers, software=software())
        built = _build_all(plan, work, job, presence)
        groups = _find_duplicates(plan, work)
        if options.duplicates == "drop" and _drop_leaks(groups, plan, work):
            built += _build_all(plan, work, job, presence)
            groups = _find_duplicates(plan, work)
        dataset, built.not_copied = seal(plan, work, options, groups)
    seconds = time.monotonic() - job.started
    work.log("sealed", digest=dataset.digest, rows=dataset.written, seconds=round(seconds, 3))
    return dataset, built


def _build_all(plan: Plan, work: Workdir, job: _Job, presence: Presence) -> Built:
    """Build the missing shards. Then build those again whose unreadable files are readable now."""
    options = job.options
    built = Built()
    readable: str | None = ""
    for _ in range(REBUILDS):
        built += build_missing(plan, work, options, job.progress, presence)
        readable = look_again(plan, work, options.max_bytes, presence, options.deadline)
        if readable is None:
            return built
    raise unstable_source(plan.source, readable or "")


def _replace(held: Workdir, beside: str, old: Dataset, job: _Job) -> tuple[Dataset, Built]:
    """Build a new dataset in OUT/.work/`beside`. When it is sealed, replace the `old` one."""
    folder = held.folder / beside
    try:
        with Workdir(folder, held.out if beside == RETRY else None) as work:
            if is_pending(folder):
                finish(folder)
            dataset, built = _build(work, held, replace(job, replaced=old))
    finally:
        if not (folder / WORK / PLAN).is_file():  # planning did not finish
            shutil.rmtree(folder, ignore_errors=True)
    begin(held.out, beside, shard_names(old), shard_names(dataset) if beside == RETRY else ())
    return dataset, built


def check_source(source: Path, out: Path, options: ShardOptions) -> None:
    """Raise an error for an unusable SOURCE before OUT is created.

    Raises TryLater if `out` was planned from it.
    """
    planned = check_present(source, out, options.deadline)
    try:
        choose_layout(source, options)
    except SourceEmpty as error:
        if not planned:
            raise
        raise TryLater(f"{error}. OUT {out} was planned from it, so it seems unavailable; try again later") from None


def open_plan(work: Workdir, held: Workdir, job: _Job, presence: Presence) -> Plan:
    """Return the saved plan of an earlier run with the same options and files, or a new plan."""

    def entries(layout: str) -> Iterator[ScanEntry]:
        return scan(job.source, layout, job.options, job.progress, presence)

    def write(path: Path) -> None:
        layout = choose_layout(job.source, job.options)
        make_plan(path, entries(layout), portable_path(job.source), layout, job.options)
        if job.replaced:
            with closing(Plan.open(path)) as plan:
                check_replacement(held.out, job.replaced, plan)

    retry, source = job.existing.retry_rejects, portable_path(job.source)
    origin = held if retry and not work.plan.is_file() else work
    if not origin.plan.is_file():
        if retry:
            raise no_job(held.out)
        work.save_plan(write)
    elif job.existing.restart:
        restart(work, write)
    else:
        with closing(Plan.open(origin.plan)) as plan:
            check_options(plan, job.options, origin.out)
            again = retried(plan, source, origin) if retry else {}
            fixed = origin.notes("fixed")
            fixed |= {shard: fixed.get(shard, {}) | files for shard, files in again.items()}
            check_inputs(plan, source, fixed, lambda: entries(plan.layout), origin.out, presence)
            if not is_planned_path(plan, source):
                job.progress.moved(plan.source, source)
                work.add_notes("sources", {source: True})
        if origin is not work:
            work.start_from(origin, again)
        else:
            for shard, files in again.items():
                work.forget(shard, files)
    return Plan.open(work.plan, source)


def _find_duplicates(plan: Plan, work: Workdir) -> list[Duplicate]:
    return duplicates.find_duplicates(((s.split, work.rows(s.name)) for s in plan.shards), plan.classes)


def _drop_leaks(groups: list[Duplicate], plan: Plan, work: Workdir) -> bool:
    """Exclude images of val and test from the train shards. Return True if there are any."""
    dropped = duplicates.leaks_to_drop(groups)
    for shard in plan.shards:
        excluded = {item.key: dropped[item.key] for item in plan.items(shard) if item.key in dropped} if dropped else {}
        if excluded:
            work.exclude(shard.name, excluded)
    return bool(dropped)


def summarise(out: Path, dataset: Dataset, built: Built, started: float, already_complete: bool = False) -> Summary:
    """Return the summary of a sealed dataset. `started` is the time.monotonic() of the start."""
    return Summary(
        out=str(out),
        digest=dataset.digest,
        found=dataset.found,
        written=dataset.written,
        rejected=dict(dataset.rejected),
        ignored=dict(dataset.ignored),
        changed=dict(dataset.changed),
        warnings=dict(dataset.warnings),
        duplicates=dict(dataset.duplicates),
        splits={name: split.rows for name, split in dataset.splits.items()},
        classes=len(dataset.classes),
        shards=sum(len(split.shards) for split in dataset.splits.values()),
        built=built.shards,
        seconds=round(time.monotonic() - started, 3),
        stages={stage: round(spent, 3) for stage, spent in built.seconds.items()},
        already_complete=already_complete,
        unfinished=unfinished(out),
        not_copied=built.not_copied,
    )
