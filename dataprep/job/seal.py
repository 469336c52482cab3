"""Seal a dataset: check that no file is lost and reject limits hold, then write dataset.json."""

import os
from collections import Counter
from dataclasses import asdict, replace

from dataprep.build.receipt import Moments, Receipt
from dataprep.build.row_digests import built_digests
from dataprep.build.workdir import Workdir
from dataprep.errors import DataprepError, DataRejected
from dataprep.items import NotCopied, Reject, key_to_path
from dataprep.job import duplicates
from dataprep.job.duplicates import Duplicate
from dataprep.job.quarantine import copy_rejected
from dataprep.options import ShardOptions
from dataprep.plan.store import Plan
from dataprep.storage.remote import is_remote
from schemas.counting import are, many, were
from schemas.dataset import Dataset, PixelStats, Split
from schemas.layout import REFUSED

_OTHER_KIND = ("unsupported_format", "not_an_image")


def seal(plan: Plan, work: Workdir, options: ShardOptions, groups: list[Duplicate]) -> tuple[Dataset, NotCopied]:
    """Check that no file is lost and reject limits hold, then write dataset.json.

    Returns the sealed dataset, and the rejected files that could not be copied to --quarantine. Raises DataRejected if
    a check fails.
    """
    receipts = work.receipts()
    missing = [planned.name for planned in plan.shards if planned.name not in receipts]
    if missing:
        raise DataprepError(
            f"the files of {missing[0]} or its receipt in {work.folder} are missing: another program removed or moved "
            "them; run the same command to build it again"
        )
    ordered = [receipts[planned.name] for planned in plan.shards]
    rejects = sorted([*plan.rejects(), *(r for receipt in ordered for r in receipt.rejects)], key=lambda r: r.key)
    dataset = _dataset(plan, options, ordered, Counter(reject.reason for reject in rejects), groups)
    lost = dataset.found - dataset.written - len(rejects) - sum(dataset.ignored.values())
    if lost:
        raise AssertionError(f"{lost} files were found but not written, rejected or ignored")
    not_copied = _quarantine(plan, work, options, rejects)
    problem = _over_budget(plan, options, rejects, dataset) or _leaks(options, groups)
    if problem:
        listed = work.save_rejects(rejects)
        work.log(REFUSED, problem=problem)
        raise DataRejected(
            f"{problem}; nothing is sealed. The rejected files are listed in {listed}{_advice(plan, rejects)}"
            f"{_shown(not_copied)}"
        )
    dataset = replace(dataset, row_digests=work.save_row_digests(built_digests(plan, work)))
    work.seal(dataset, rejects, (duplicate.to_dict() for duplicate in groups))
    return dataset, not_copied


def _quarantine(plan: Plan, work: Workdir, options: ShardOptions, rejects: list[Reject]) -> NotCopied:
    """Copy the rejected files to --quarantine, if given. Log each that could not be copied."""
    if options.quarantine is None:
        return {}
    rejected = plan.find({reject.key for reject in rejects})
    placed = {item.key: item for item in rejected if item.place is not None or is_remote(plan.base)}
    failed = copy_rejected(plan.base, options.quarantine, rejects, placed, options.deadline)
    for key, problem in failed.items():
        work.log("not_copied", key=key, problem=problem)
    return failed


def _shown(not_copied: NotCopied) -> str:
    for key, problem in not_copied.items():
        return f". {len(not_copied)} of them could not be copied to --quarantine, the first '{key}': {problem}"
    return ""


def _over_budget(plan: Plan, options: ShardOptions, rejects: list[Reject], dataset: Dataset) -> str | None:
    """Return a sentence about the reject limit that is exceeded; None if there is none."""
    candidates = dataset.written + len(rejects)
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(dataset.rejected.items()))
    if not dataset.written:
        return f"none of the {many(candidates, 'file')} could be written ({reasons})"
    if not options.max_rejects.allows(len(rejects), candidates):
        rejected = f"{len(rejects)} of {many(candidates, 'file')} {were(len(rejects))} rejected ({reasons})"
        return (
            f"{rejected}, more than --max-rejects "
            f"{options.max_rejects} allows (the same command with a larger --max-rejects seals what was built)"
        )
    planned = [sum(rows) for rows in zip(*plan.class_rows().values(), strict=True)]
    written = [sum(rows) for rows in zip(*(split.class_rows for split in dataset.splits.values()), strict=True)]
    for name, before, after in zip(plan.classes, planned, written, strict=True):
        if not options.max_class_loss.allows(before - after, before):
            return (
                f"class '{name}' lost {before - after} of its {many(before, 'file')}, more than --max-class-loss "
                f"{options.max_class_loss} allows (the same command with a larger --max-class-loss seals what was "
                "built)"
            )
    return None


def _leaks(options: ShardOptions, groups: list[Duplicate]) -> str | None:
    leaks = [duplicate for duplicate in groups if duplicate.is_leak]
    if options.duplicates != "fail" or not leaks:
        return None
    keys = " and ".join(f"'{key}'" for key in leaks[0].keys[:2])
    return (
        f"{many(len(leaks), 'image')} of val or test {are(len(leaks))} also in train, the first as {keys} "
        "(--duplicates drop --restart excludes the train copies)"
    )


def _advice(plan: Plan, rejects: list[Reject]) -> str:
    """Return the --ignore option for rejected files of an unwanted type, such as SVGs beside PNGs."""
    extensions = Counter(os.path.splitext(reject.key)[1] for reject in rejects if reject.reason in _OTHER_KIND)
    for extension, count in extensions.most_common(1):
        if extension and count == plan.count_ending(extension):  # no written file has this extension
            return f"; --ignore '*{key_to_path(extension)}' --restart ignores {count} of them"
    return ""


def _dataset(
    plan: Plan, options: ShardOptions, receipts: list[Receipt], rejected: Counter[str], groups: list[Duplicate]
) -> Dataset:
    changed: Counter[str] = Counter()
    warnings: Counter[str] = Counter()
    moments = Moments()
    for receipt in receipts:
        changed.update(receipt.changed)
        warnings.update(receipt.warnings)
        moments.add(receipt.moments.images, receipt.moments.mean, receipt.moments.square)
    return Dataset(
        schema=options.record_schema(),
        classes=plan.classes,
        splits={split: _split(receipts, split, len(plan.classes)) for split in plan.splits()},
        found=plan.found,
        rejected=rejected,
        ignored=plan.ignored,
        changed=changed,
        duplicates=duplicates.count(groups),
        warnings=warnings,
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
    # Six decimals are far below the sampling error.
    m, s = [round(v, 6) for v in mean], [round(v, 6) for v in std]
    return PixelStats((m[0], m[1], m[2]), (s[0], s[1], s[2]), moments.images)
