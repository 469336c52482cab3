"""Rules for the existing content of OUT. Nothing is removed before its replacement is complete."""

import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Set
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dataprep.build.absence import Presence
from dataprep.build.workdir import Workdir
from dataprep.errors import DataprepError, DataRejected, TryLater
from dataprep.items import portable_path, size_and_time, source_path
from dataprep.job.swap import NEXT, RESTART, RETRY, begin, is_pending
from dataprep.plan.store import Plan
from schemas.counting import many
from schemas.dataset import Dataset, load_dataset
from schemas.errors import ContractError
from schemas.layout import DATASET, DUPLICATES, PLAN, REJECTS, ROW_DIGESTS, WORK, index_name

LEAST_FRACTION = 0.1  # of the rows of a sealed dataset; a replacement has at least as many
Fixed = dict[str, dict[str, tuple[int, int]]]  # shard -> key -> size in bytes, modification time in ns
_FLAGS = {NEXT: "--overwrite", RETRY: "--retry-rejects"}


@dataclass(frozen=True)
class Existing:
    """Options for the existing content of OUT.

    `overwrite` replaces a sealed dataset. `restart` plans an unfinished job again. `retry_rejects` re-checks rejected
    files of an unfinished job or a sealed dataset.
    """

    overwrite: bool = False
    restart: bool = False
    retry_rejects: bool = False

    def beside(self, out: Path) -> str | None:
        """Return the folder in OUT/.work for a new dataset that replaces the sealed one; None to build in OUT.

        Raises DataprepError if --restart is given for a sealed dataset.
        """
        if not (out / DATASET).is_file():
            return None
        if self.restart and not self.overwrite:
            raise DataprepError(f"OUT {out} is sealed; --restart is for unfinished jobs; use --overwrite to replace it")
        if self.retry_rejects and not load_dataset(out).rejected:
            return None
        return NEXT if self.overwrite else RETRY if self.retry_rejects else None


NOTHING = Existing()


@contextmanager
def still_sealed(out: Path) -> Iterator[None]:
    """Add to every error message whether OUT is still the old dataset."""
    try:
        yield
    except DataprepError as error:
        state = "is being replaced by the new dataset, which is complete"
        if not is_pending(out):
            state = "is still the old sealed dataset"
        raise type(error)(f"{error} (OUT {out} {state})") from None


def replaced_set(out: Path) -> Dataset:
    """Return the sealed dataset in `out` to be replaced. Raises DataprepError if its dataset.json is damaged."""
    try:
        return load_dataset(out)
    except ContractError as error:
        raise DataprepError(
            f"{error}. --overwrite removes only files of a valid {DATASET}: remove {out} yourself"
        ) from None


def check_replacement(out: Path, old: Dataset, plan: Plan) -> None:
    """Raise DataRejected if `plan` has no class of the `old` dataset, or less than a tenth of its rows.

    The usual cause is a mistyped SOURCE.
    """
    old_rows = [sum(counts) for counts in zip(*(split.class_rows for split in old.splits.values()), strict=True)]
    old_classes = {name for name, count in zip(old.classes, old_rows, strict=True) if count}
    rows = [sum(counts) for counts in zip(*plan.class_rows().values(), strict=True)]
    new_classes = {name for label, name in enumerate(plan.classes) if rows[label]}
    if not old_classes or (old_classes & new_classes and plan.item_count >= old.written * LEAST_FRACTION):
        return
    why = f"fewer than {LEAST_FRACTION:.0%} of these rows" if old_classes & new_classes else "none of these classes"
    raise DataRejected(
        f"OUT {out} was sealed with {_counted(old.written, 'row', old_classes)}; SOURCE {plan.source} has "
        f"{_counted(plan.item_count, 'image', new_classes)}: {why}. Check SOURCE. If it is correct, move the old "
        f"dataset away and run the same command again: mv {shlex.quote(str(out))} {shlex.quote(f'{out}.old')}"
    )


def _counted(count: int, noun: str, classes: Set[str]) -> str:
    named = ", ".join(f"'{name}'" for name in sorted(classes)[:3]) + (", ..." if len(classes) > 3 else "")
    return f"{many(count, noun)} in {many(len(classes), 'class', 'classes')} ({named})"


def shard_names(dataset: Dataset) -> list[str]:
    """Return the shard names of all splits."""
    return [shard.name for shard in dataset.shards]


def file_names(dataset: Dataset) -> frozenset[str]:
    """Return the file names of the dataset, without the work folder."""
    names = shard_names(dataset)
    return frozenset([*names, *map(index_name, names), DATASET, REJECTS, DUPLICATES, ROW_DIGESTS])


def unfinished(out: Path) -> str | None:
    """Return a sentence about the unfinished replacement of the sealed dataset; None if it is not being replaced."""
    for folder, flag in _FLAGS.items():
        unfinished_folder = out / WORK / folder
        if (unfinished_folder / WORK / PLAN).is_file():
            return (
                f"{unfinished_folder} has an unfinished {flag}: run the same command to resume it, or remove that "
                "folder"
            )
    return None


def check_present(source: Path, out: Path, deadline_s: float) -> bool:
    """Return True if `out` was planned from `source`.

    In that case, raise TryLater if `source` is missing or empty now.
    """
    folders = (out, *(out / WORK / name for name in _FLAGS))
    planned = any(portable_path(source) in _planned_from(folder) for folder in folders)
    if planned:
        Presence(source, deadline_s).require()
    return planned


def _planned_from(out: Path) -> set[str]:
    """Return the source paths of the job in `out`."""
    work = Workdir(out)
    if not work.plan.is_file():
        return set()
    with closing(Plan.open(work.plan)) as plan:
        return {plan.source, *work.notes("sources")}


def restart(work: Workdir, write: Callable[[Path], None]) -> None:
    """Make a new plan with `write`, then replace the old plan and remove all shards."""
    folder = work.folder / RESTART
    try:
        with Workdir(folder) as new_work:
            new_work.save_plan(write)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    with closing(Plan.open(work.plan)) as plan:
        old = [shard.name for shard in plan.shards]
    begin(work.out, RESTART, old)


def retried(plan: Plan, source: str, work: Workdir) -> Fixed:
    """Return the shards with rejected files, and size and time of those files that exist below `source`.

    Shards that an interrupted retry has built from the same files are not returned.
    """
    receipts, known = work.receipts(), work.notes("fixed")
    fixed: Fixed = {}
    for shard in plan.shards:
        receipt, before = receipts.get(shard.name), known.get(shard.name, {})
        keys = [reject.key for reject in receipt.rejects] if receipt else list(before)
        stats = {key: stat for key in keys if (stat := _stat(source, key))}
        resumed = work.base is not None and all(list(stat) == before.get(key) for key, stat in stats.items())
        if keys and not resumed:
            fixed[shard.name] = stats
    return fixed


def _stat(source: str, key: str) -> tuple[int, int] | None:
    try:
        stat = os.stat(source_path(source, key))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None  # it will be rejected again
    return size_and_time(stat)


def no_job(out: Path) -> DataprepError:
    """Return the error for --retry-rejects without a plan."""
    return DataprepError(f"OUT {out} has no job with rejected files to check again")


def unstable_source(source: str, key: str) -> TryLater:
    """Return the error for a file that a worker cannot read, but this process can."""
    return TryLater(
        f"a worker could not read '{key}', but it can be read now: SOURCE {source} is unstable, or differs between "
        "machines; run the same command to resume"
    )
