"""The main path of `dataprep shard`: scan, plan, build what is missing, look for duplicates, seal."""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dataprep import duplicates
from dataprep.build import Built, build_missing, worker_count
from dataprep.duplicates import Duplicate
from dataprep.engines import check_engine
from dataprep.errors import DataprepError, TryLater
from dataprep.item import ClosedFolder, Found, Reject
from dataprep.keys import portable_path, source_path
from dataprep.options import ShardOptions
from dataprep.plan import Plan, make_plan
from dataprep.progress import Progress
from dataprep.seal import seal
from dataprep.software import software
from dataprep.sources import SOURCES, detect_layout
from dataprep.sources.closed import check_passing, refuse_closed
from dataprep.target import check_inputs, check_options, check_schema, check_space, check_target, completed
from dataprep.workdir import Workdir
from schemas.dataset import Dataset


@dataclass(frozen=True)
class Summary:
    """What a finished job has made. `built` counts the shards of this run, `seconds` its time; `stages` says what went
    into it, see build.Built.
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


def shard(source: Path, out: Path, options: ShardOptions, progress: Progress) -> Summary:
    """Turn the images below `source` into a sealed dataset in `out`; run again after a kill, it goes on.

    Raises DataprepError for a mistake, DataRefused when too many files were refused, TryLater when another job
    holds `out` or its disk is full. Whatever is raised, no dataset.json is left that says more than is there.
    """
    started = time.monotonic()
    source = source.absolute()
    check_schema(options)
    done = completed(out, portable_path(source), options)
    if done:
        return summarise(out, done, Built(), time.monotonic() - started, already_complete=True)
    check_target(out, source, options.quarantine)
    check_engine(options.engine)
    choose_layout(source, options)  # a mistaken SOURCE is refused before OUT is made
    with disk_errors(out), Workdir(out) as work:
        with closing(open_plan(work, source, options, progress)) as plan:
            check_space(out, plan.bytes - sum(receipt.shard.bytes for receipt in work.receipts().values()))
            workers = worker_count(plan, options)
            work.log("start", pid=os.getpid(), options=options.deciding(), workers=workers, software=software())
            built = build_missing(plan, work, options, progress)
            found = _find_duplicates(plan, work)
            if options.duplicates == "drop" and _drop_leaks(found, plan, work):
                again = build_missing(plan, work, options, progress)
                built = Built(built.shards + again.shards, built.seconds + again.seconds)
                found = _find_duplicates(plan, work)
            dataset = seal(plan, work, options, found)
        seconds = time.monotonic() - started
        work.log("sealed", digest=dataset.digest, rows=dataset.written, seconds=round(seconds, 3))
    return summarise(out, dataset, built, seconds)


def scan(source: Path, layout: str, options: ShardOptions, progress: Progress) -> Iterator[Found]:
    """Everything below `source`, told to `progress` now and then.

    Raises DataRefused at the end when folders could not be listed, TryLater at once where waiting may help.
    """
    closed: list[ClosedFolder] = []
    for count, found in enumerate(SOURCES[layout](source, options.walk)):
        if count % 1000 == 0:
            progress.scanning(count)
        if isinstance(found, ClosedFolder):
            closed.append(check_passing(source, found))
        else:
            yield found
    refuse_closed(source, closed)


def choose_layout(source: Path, options: ShardOptions) -> str:
    """The layout as asked or detected; raises DataprepError when SOURCE cannot be read, or read in one way only."""
    return detect_layout(source, options.walk, options.layout)


def open_plan(work: Workdir, source: Path, options: ShardOptions, progress: Progress) -> Plan:
    """The saved plan of an earlier run of the same job on the same files, else a new one."""
    if not work.plan.is_file():
        layout = choose_layout(source, options)
        found = scan(source, layout, options, progress)
        work.save_plan(lambda path: make_plan(path, found, portable_path(source), layout, options))
        return Plan.open(work.plan)
    plan = Plan.open(work.plan)
    check_options(plan, portable_path(source), options, work.out)
    check_inputs(plan, work.found("mended"), lambda: scan(source, plan.layout, options, progress), work.out)
    return plan


def _find_duplicates(plan: Plan, work: Workdir) -> list[Duplicate]:
    return duplicates.find_duplicates(((s.split, work.rows(s.name)) for s in plan.shards), plan.classes)


def _drop_leaks(found: list[Duplicate], plan: Plan, work: Workdir) -> bool:
    """Have the train shards built without the pictures of val and test; whether there is any such."""
    dropped = duplicates.leaks_to_drop(found)
    for shard in plan.shards:
        here = {item.key: dropped[item.key] for item in plan.items(shard) if item.key in dropped} if dropped else {}
        if here:
            work.exclude(shard.name, here)
    return bool(dropped)


def retry_rejects(out: Path) -> int:
    """Have what was refused in `out` looked at again, after the user has mended files; the number of files.

    Only the shards that they belong to are built again. Files that the scan itself refused were never planned.
    """
    with Workdir(out) as work:
        if not work.plan.is_file():
            raise DataprepError(f"OUT {out} holds no job whose rejects could be retried")
        receipts = work.receipts()
        with closing(Plan.open(work.plan)) as plan:
            work.unseal()
            built = [receipts[shard.name] for shard in plan.shards if shard.name in receipts]
            return sum(_retry(receipt.shard.name, receipt.rejects, plan, work) for receipt in built)


def _retry(shard: str, rejects: list[Reject], plan: Plan, work: Workdir) -> int:
    stats = {}
    for reject in rejects:
        try:
            found = os.stat(source_path(plan.source, reject.key))
        except OSError:
            continue  # still not there: it will be refused again
        stats[reject.key] = (found.st_size, found.st_mtime_ns)
    if rejects:
        work.forget(shard, stats)
    return len(rejects)


@contextmanager
def disk_errors(out: Path) -> Iterator[None]:
    """Turn what a disk does to a job into a sentence; what waiting cures into TryLater."""
    try:
        yield
    except OSError as error:
        where = error.filename or out
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            what = "the disk is full" if error.errno == errno.ENOSPC else "the disk quota is used up"
            raise TryLater(f"{what} at {where}; make room, then the same command goes on") from None
        if error.errno == errno.EFBIG:
            raise DataprepError(
                f"a file at {where} may not grow any larger (file-size limit); raise `ulimit -f`, or use a smaller "
                "--shard-size with --restart"
            ) from None
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise DataprepError(
                f"cannot write at {where}: {error.strerror}; mend that and the same command goes on"
            ) from None
        if error.errno in (errno.EIO, errno.ESTALE, errno.ENODEV, errno.ENXIO):
            raise TryLater(
                f"the disk fails at {where}: {error.strerror}; once it is well, the same command goes on"
            ) from None
        raise


def summarise(out: Path, dataset: Dataset, built: Built, seconds: float, already_complete: bool = False) -> Summary:
    """The summary of a sealed dataset."""
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
        seconds=round(seconds, 3),
        stages={stage: round(spent, 3) for stage, spent in built.seconds.items()},
        already_complete=already_complete,
    )
