"""Describe, for a dry run, the content of OUT and what a job would do with it."""

from contextlib import closing
from pathlib import Path

from dataprep.build.lock import running_holder
from dataprep.build.workdir import Workdir
from dataprep.errors import DataprepError
from dataprep.job.existing_set import Existing, check_replacement, file_names, replaced_set, unfinished
from dataprep.job.preflight import check_options, completed, is_planned_path
from dataprep.job.swap import is_pending
from dataprep.options import ShardOptions
from dataprep.plan.store import Plan
from schemas.counting import many
from schemas.dataset import load_dataset
from schemas.errors import ContractError
from schemas.layout import DATASET, PLAN, WORK


def replaceable(out: Path, existing: Existing) -> frozenset[str]:
    """Return the files in `out` that the job may replace. Raises DataprepError as the job itself would."""
    if is_pending(out) or not existing.beside(out):
        return frozenset()
    return file_names(replaced_set(out))


def describe_target(out: Path, source: str, options: ShardOptions, existing: Existing, plan: Plan) -> str | None:
    """Return a sentence about the content of `out`; None if it is free.

    `plan` is the plan that the job would make now.
    """
    holder = running_holder(out / WORK / "lock")
    if holder:
        return f"OUT {out} is being written by {holder} now: the job would stop with exit code 75"
    if is_pending(out):
        return f"a killed job has left OUT {out} partly replaced: the job would finish that first"
    try:
        if (out / DATASET).is_file():
            return _sealed(out, source, options, existing, plan)
        if (out / WORK / PLAN).is_file():
            return _unfinished(out, source, options, existing, plan)
    except ContractError as error:
        return _stop(DataprepError(str(error)))
    except DataprepError as error:
        return _stop(error)
    return None


def _stop(error: DataprepError) -> str:
    return f"the job would stop with exit code {error.exit_code}: {error}"


def _sealed(out: Path, source: str, options: ShardOptions, existing: Existing, plan: Plan) -> str:
    old = load_dataset(out)
    content = f"OUT {out} is already sealed: {many(old.written, 'row')} in {many(len(old.classes), 'class', 'classes')}"
    beside = unfinished(out)
    left = f"; {beside}" if beside else ""
    if existing.overwrite:
        check_replacement(out, old, plan)
        return f"{content}; --overwrite would replace it when the new dataset is complete{left}"
    if existing.retry_rejects:
        count = many(sum(old.rejected.values()), "rejected file")
        return f"{content}; --retry-rejects would re-check {count}{left}"

    def check_files(saved: Plan) -> None:
        if not is_planned_path(saved, source):
            _check_same_files(saved, plan, source, out)

    completed(out, options, check_files)
    return f"{content}, with the same options; the job would do nothing (--overwrite builds it again){left}"


def _unfinished(out: Path, source: str, options: ShardOptions, existing: Existing, plan: Plan) -> str:
    work = Workdir(out)
    receipts = work.receipts().values()
    rejects = sum(len(receipt.rejects) for receipt in receipts)
    with closing(Plan.open(work.plan)) as saved:
        shards = f"{len(receipts):,} of {many(len(saved.shards), 'shard')} built"
        built = f"{shards}, {many(rejects, 'file')} rejected so far"
        if existing.restart:
            return f"OUT {out} has an unfinished job ({built}): --restart would plan it again"
        check_options(saved, options, out)
        if not work.notes("fixed"):
            _check_same_files(saved, plan, source, out)
    return f"OUT {out} has this job, unfinished ({built}): it would resume"


def _check_same_files(saved: Plan, plan: Plan, source: str, out: Path) -> None:
    if saved.fingerprint != plan.fingerprint:
        raise DataprepError(
            f"SOURCE {source} has changed since the job in OUT {out} was started; use --restart to start again"
        )
