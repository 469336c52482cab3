"""`dataprep shard --dry-run`: the whole plan, and what it will cost, without writing anything."""

import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dataprep.build import worker_count
from dataprep.images import Refusal, decode
from dataprep.keys import portable_path, source_path
from dataprep.options import ShardOptions
from dataprep.pipeline import choose_layout, scan
from dataprep.plan import Plan, fill_plan
from dataprep.progress import Progress
from dataprep.reading import read_item
from dataprep.target import check_schema, check_target, free_bytes

SAMPLE = 200
# What a job takes beside its images, in seconds, and the proof of a MB; docs/operations.md, "What a job costs".
START_S = {"decode": 5.0, "rows": 5.0, "off": 1.0}
PROOF_S_PER_MB = {"decode": 0.020, "rows": 0.0, "off": 0.0}


@dataclass(frozen=True)
class SplitPlan:
    """One split as planned; `class_rows` is in label order, `bytes` sums the files' sizes."""

    rows: int
    shards: int
    bytes: int
    class_rows: list[int]


@dataclass(frozen=True)
class Preview:
    """What the job would do. `seconds` and `bytes` are estimates from a sample of the images."""

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


def preview(source: Path, out: Path, options: ShardOptions, progress: Progress) -> Preview:
    """Scan and plan, time a sample of the images, write nothing. Raises DataprepError as the job itself would."""
    source = source.absolute()
    name = portable_path(source)
    check_schema(options)
    check_target(out, source)
    layout = choose_layout(source, options)
    with closing(sqlite3.connect("")) as db:  # SQLite's own temporary file, gone when closed
        fill_plan(db, scan(source, layout, options, progress), name, layout, options)
        plan = Plan(db)
        growth, seconds, refused = _try_sample(plan, options)
        rows = plan.class_rows()
        workers = worker_count(plan, options)
        size = round(plan.bytes * growth)
        proof = PROOF_S_PER_MB[options.prove] * size / 1e6
        return Preview(
            source=name,
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
            seconds=round(START_S[options.prove] + (seconds * plan.item_count + proof) / workers, 1),
            sampled=min(SAMPLE, plan.item_count),
            sample_rejected=refused,
        )


def _try_sample(plan: Plan, options: ShardOptions) -> tuple[float, float, int]:
    """(bytes written per byte read, seconds an image, refused) over a sample of the plan."""
    before = after = refused = 0
    sample = plan.sample(SAMPLE)
    started = time.perf_counter()
    for item in sample:
        try:
            data = read_item(source_path(plan.source, item.key), item, options.policy.max_bytes)
            after += len(decode(data, options.policy).data)
            before += len(data)
        except Refusal:
            refused += 1
    seconds = time.perf_counter() - started
    return (after / before if before else 1.0), seconds / max(1, len(sample)), refused


def _existing(path: Path) -> Path:
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path
