"""`dataprep shard --dry-run`: estimate the plan, its size and its time without writing anything."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dataprep.build.progress import Progress
from dataprep.build.scheduler import worker_count
from dataprep.items import portable_path
from dataprep.job.existing_set import NOTHING, Existing
from dataprep.job.forecast import known_rejects, set_bytes, stopped_by, try_sample
from dataprep.job.preflight import check_schema, check_target, free_bytes
from dataprep.job.scan import choose_layout, origin_of, scan
from dataprep.job.target_state import describe_target, replaceable
from dataprep.options import ShardOptions
from dataprep.plan.planner import fill_plan
from dataprep.plan.store import Plan
from dataprep.storage.remote import address_of

# Fixed seconds of a job, and seconds of the decode check per MB; see docs/operations.md, "What a job costs".
START_S = {"decode": 5.0, "rows": 5.0, "off": 1.0}
CHECK_S_PER_MB = {"decode": 0.020, "rows": 0.0, "off": 0.0}


@dataclass(frozen=True)
class SplitPlan:
    """A planned split. `class_rows` is in label order. `bytes` is the sum of the file sizes."""

    rows: int
    shards: int
    bytes: int
    class_rows: list[int]


@dataclass(frozen=True)
class Preview:
    """The result of a dry run.

    `seconds` and `bytes` (of all shards and indexes) are estimated from sampled images. `known_rejects` counts, by
    reason, the files rejected by the scan, their size or their first bytes. `looked_at` is the number of files whose
    first bytes were read. `stopped_by` names the reject limit that would stop the job. `target` describes the content
    of OUT and what the job would do with it.
    """

    source: str
    out: str
    layout: str
    classes: list[str]
    splits: dict[str, SplitPlan]
    found: int
    rejected: int
    ignored: dict[str, int]
    warnings: list[str]
    bytes: int
    free_bytes: int | None
    workers: int
    seconds: float
    sampled: int
    sample_rejected: int
    known_rejects: dict[str, int]
    looked_at: int
    stopped_by: str | None
    target: str | None


def preview(
    source: Path, out: Path, options: ShardOptions, progress: Progress, existing: Existing = NOTHING
) -> Preview:
    """Scan, plan, and time a sample of the images.

    Raises DataprepError as the job itself would.
    """
    source = source.absolute()
    name = portable_path(source)
    check_schema(options)
    check_target(out, source, options.quarantine, replaceable(out, existing))
    layout = choose_layout(source, options)
    with closing(sqlite3.connect("")) as db:  # a temporary file that SQLite deletes when closed
        fill_plan(db, scan(source, layout, options, progress), origin_of(source, layout), options)
        plan = Plan(db)
        known = known_rejects(plan, options.max_bytes)
        sample = try_sample(plan, options)
        rows = plan.class_rows()
        workers = worker_count(plan, options)
        size = set_bytes(plan, sample)
        seconds = sample.seconds / max(1, sample.images) * plan.item_count + CHECK_S_PER_MB[options.prove] * size / 1e6
        return Preview(
            source=address_of(name),
            out=str(out),
            layout=layout,
            classes=list(plan.classes),
            splits={
                split: SplitPlan(sum(rows[split]), len(shards), sum(shard.bytes for shard in shards), rows[split])
                for split, shards in plan.splits().items()
            },
            found=plan.found,
            rejected=len(plan.rejects()),
            ignored=plan.ignored,
            warnings=plan.warnings,
            bytes=size,
            free_bytes=free_bytes(_existing(out)),
            workers=workers,
            seconds=round(START_S[options.prove] + seconds / workers, 1),
            sampled=sample.images,
            sample_rejected=sample.rejected.total(),
            known_rejects=dict(sorted(known.reasons.items())),
            looked_at=known.looked_at,
            stopped_by=stopped_by(plan, options, known, sample),
            target=describe_target(out, name, options, existing, plan),
        )


def _existing(path: Path) -> Path:
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path
