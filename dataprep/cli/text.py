"""Formats results as text, and as objects for JSON."""

from dataclasses import asdict
from functools import singledispatch
from typing import Any

from dataprep.formatting import counts, duration, size
from dataprep.job.dry_run import Preview
from dataprep.pipeline import Summary
from dataprep.report.page import Reported
from dataprep.tools.inspect import Inspection, Record
from dataprep.tools.repair import Repaired
from dataprep.tools.salvage import Salvaged
from dataprep.tools.verify import Verdict
from schemas.counting import many
from schemas.names import printable

WORKER_STAGES = ("read", "decode", "encode", "write")


def as_object(result: Any) -> dict[str, Any]:
    """Return a result dataclass as a JSON object; image bytes become their length."""
    if isinstance(result, Record):
        sizes = {name: {"bytes": len(data)} for name, data in result.blobs.items()}
        named = {} if result.class_name is None else {"class_name": result.class_name}
        return {"shard": result.shard, "row": result.row, **named, **result.values, **sizes}
    return asdict(result)


@singledispatch
def as_lines(result: object) -> list[str]:
    """Return a result dataclass as lines of text."""
    raise TypeError(f"no lines for {type(result).__name__}")


@as_lines.register
def _(s: Summary) -> list[str]:
    rejected, ignored = sum(s.rejected.values()), sum(s.ignored.values())
    splits = ", ".join(f"{name} {rows:,}" for name, rows in s.splits.items())
    lines = [
        f"{s.out} is already complete; no image was read (--overwrite builds it again)"
        if s.already_complete
        else f"{s.out} is sealed",
        f"  found     {s.found:,} = {s.written:,} written + {rejected:,} rejected + {ignored:,} ignored",
        f"  splits    {splits}; {many(s.classes, 'class', 'classes')}",
        f"  shards    {s.shards}, {s.built} of them built now in {duration(s.seconds)}",
    ]
    lines += [f"  rejected  {counts(s.rejected)}; see {s.out}/rejects.jsonl"] if rejected else []
    if s.not_copied:
        key, problem = next(iter(s.not_copied.items()))
        lines.append(
            f"  not copied to --quarantine: {many(len(s.not_copied), 'file')}, the first '{printable(key)}': "
            f"{printable(problem)}; {s.out}/.work/run.jsonl lists all"
        )
    lines += [f"  ignored   {counts(s.ignored)}"] if ignored else []
    if s.duplicates.get("groups"):
        d = s.duplicates
        lines.append(
            f"  duplicate {many(d['groups'], 'image')} more than once: {d['leaks']:,} in train and in val or test, "
            f"{d['conflicts']:,} in two classes; see {s.out}/duplicates.jsonl"
        )
    lines += [f"  changed   {counts(s.changed)}"] if s.changed else []
    lines += [f"  warnings  {counts(s.warnings)}"] if s.warnings else []
    lines += [f"  time      {_time(s.stages, s.seconds)}"] if s.built else []
    lines += [f"  beside    {s.unfinished}"] if s.unfinished else []
    return [*lines, f"  identity  {s.digest}"]


def _time(stages: dict[str, float], seconds: float) -> str:
    """Return each stage's share of the worker time, and the decode check's share of the job's time."""
    # Without a row in any shard, reading is the only stage.
    whole = max(1e-9, stages.get("all", 0.0))
    shares = sorted(((stages.get(name, 0.0) / whole, name) for name in WORKER_STAGES), reverse=True)
    # On a cluster, decode checks run in parallel: their sum may exceed the time of the job.
    check = stages.get("prove", 0.0) / max(1e-9, seconds)
    marks = [f"{name} {share:.0%}" for share, name in shares if share >= 0.005 or name == shares[0][1]]
    marks += [f"decode check {check:.0%} of the job"] if check else []
    bottleneck = len(marks) - 1 if 0.9 < check <= 1 else 0
    marks[bottleneck] += " (bottleneck)"
    return ", ".join(marks)


@as_lines.register
def _(p: Preview) -> list[str]:
    ignored = f", {counts(p.ignored)} ignored" if p.ignored else ""
    lines = [
        f"{p.source}: layout '{p.layout}', {p.found:,} found, {p.rejected:,} rejected by the scan{ignored}",
        *([p.target] if p.target else []),
        "",
        f"{'class':<30}" + "".join(f"{name:>10}" for name in p.splits),
    ]
    for label, name in enumerate(p.classes):
        lines.append(
            f"{printable(name)[:29]:<30}" + "".join(f"{split.class_rows[label]:>10,}" for split in p.splits.values())
        )
    for title in ("rows", "shards", "bytes"):
        values = (getattr(split, title) for split in p.splits.values())
        lines.append(f"{title:<30}" + "".join(f"{size(v) if title == 'bytes' else f'{v:,}':>10}" for v in values))
    lines += ["", *_expected_rejects(p)]
    free = "an unknown size is" if p.free_bytes is None else f"{size(p.free_bytes)} are"
    if p.free_bytes is not None and p.bytes > p.free_bytes:
        lines.append("Warning: the disk has less free space; the job would stop with exit code 75")
    return [
        *lines,
        f"about {size(p.bytes)} will be written to {p.out}, where {free} free",
        f"about {duration(p.seconds)} with {many(p.workers, 'worker')}; nothing was written (--dry-run)",
    ]


def _expected_rejects(p: Preview) -> list[str]:
    """Return the rejects that a dry run expects, and the limit that would stop the job."""
    lines = []
    if p.known_rejects:
        total = sum(p.known_rejects.values())
        how = f"by name, size or the first bytes of {many(p.looked_at, 'file')}"
        lines.append(f"known to be rejected: {total:,} ({counts(p.known_rejects)}), {how}")
    if p.sample_rejected:
        sample = f"a sample of {many(p.sampled, 'image')}"
        lines.append(f"Warning: {p.sample_rejected} of {sample} would be rejected after decoding with Pillow")
    return [*lines, f"Warning: {p.stopped_by}"] if p.stopped_by else lines


@as_lines.register
def _(i: Inspection) -> list[str]:
    fields = [
        f"  {field.name}: {field.type}{list(field.shape) if field.shape else ''}"
        + (f", {field.role}" if field.role and field.role != field.name else "")
        + (", indexed" if field.index else "")
        for field in i.schema.fields
    ]
    title = f"{i.path}" + (f", split {i.split}" if i.split else "")
    lines = [f"{title}: {many(i.rows, 'row')} in {many(len(i.shards), 'shard')}, {size(i.bytes)}"]
    if i.splits:
        lines.append(f"splits: {', '.join(f'{name} {rows:,}' for name, rows in i.splits.items())}")
    lines += [f"schema '{printable(i.schema.name)}':", *fields, "shards:"]
    lines += [f"  {printable(name)}: {many(rows, 'row')}" for name, rows in i.shards.items()]
    if i.class_rows:
        lines += [
            "classes:",
            *(f"  {n}: {printable(name)}, {rows:,}" for n, (name, rows) in enumerate(i.class_rows.items())),
        ]
    return [*lines, f"identity: {i.digest}"] if i.digest else lines


@as_lines.register
def _(v: Verdict) -> list[str]:
    identity = [f"  identity  {v.digest}"]
    if v.problems:
        return [f"{v.path}: {many(len(v.problems), 'problem')}", *(f"  {printable(problem)}" for problem in v.problems)]
    summary = f"{v.path}: {many(v.shards, 'shard')} with {many(v.rows, 'row')}"
    if not v.full:
        return [f"{summary}: sizes, indexes and row counts are unchanged; --full also checks the data", *identity]
    return [f"{summary}: every byte is unchanged", *identity]


@as_lines.register
def _(r: Record) -> list[str]:
    sizes = {name: f"{len(data)} bytes" for name, data in r.blobs.items()}
    values = {**r.values, **sizes}
    lines = [f"row {r.row}, in {r.shard}", *(f"  {name}: {printable(str(value))}" for name, value in values.items())]
    return [*lines, *([f"  class: {printable(r.class_name)}"] if r.class_name is not None else [])]


@as_lines.register
def _(r: Repaired) -> list[str]:
    done = [f"  {printable(text)}" for text in r.done] or [
        "  nothing could be repaired" if r.problems else "  no damage found"
    ]
    if not r.problems:
        return [f"{r.path} is unchanged since it was sealed", *done]
    problems = [f"  {printable(problem)}" for problem in r.problems]
    advice = "--salvage NEW writes the undamaged rows to a new dataset"
    return [f"{r.path}:", *done, "remaining problems:", *problems, advice]


@as_lines.register
def _(s: Salvaged) -> list[str]:
    rows = ", ".join(f"{name} {rows:,}, {s.lost[name]:,} lost" for name, rows in s.rows.items())
    lines = [f"{s.path} is sealed: {rows}; rejects.jsonl lists the lost rows"]
    lines += [f"  unknown: {printable(text)}" for text in s.unknown]
    return [*lines, f"  identity  {s.digest}"]


@as_lines.register
def _(r: Reported) -> list[str]:
    images = f"{many(r.pictures, 'image')} of {many(r.rows, 'row')} in {many(r.classes, 'class', 'classes')}"
    return [
        f"wrote {r.path}: {size(r.bytes)}, {images}",
        *(f"  {printable(sentence)}" for sentence in r.missing),
        f"  identity  {r.digest}",
    ]
