"""What a command may do with what OUT holds already: nothing of it goes before what takes its place is complete."""

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

LEAST_SHARE = 0.1  # of the rows of a sealed set must be in the one that replaces it
Mended = dict[str, dict[str, tuple[int, int]]]  # shard -> key -> size in bytes, time of change in ns
_FLAGS = {NEXT: "--overwrite", RETRY: "--retry-rejects"}


@dataclass(frozen=True)
class Existing:
    """`overwrite` replaces a sealed set; `restart` plans an unfinished job again; `retry_rejects` looks again at
    refused files, in an unfinished job or beside the sealed set.
    """

    overwrite: bool = False
    restart: bool = False
    retry_rejects: bool = False

    def beside(self, out: Path) -> str | None:
        """The folder in OUT/.work where a new set is built while OUT stays sealed; None where OUT itself is built.

        Raises DataprepError for --restart on a sealed set.
        """
        if not (out / DATASET).is_file():
            return None
        if self.restart and not self.overwrite:
            raise DataprepError(
                f"OUT {out} is sealed; --restart is for unfinished jobs, --overwrite removes a sealed set"
            )
        if self.retry_rejects and not load_dataset(out).rejected:
            return None
        return NEXT if self.overwrite else RETRY if self.retry_rejects else None


NOTHING = Existing()


@contextmanager
def still_sealed(out: Path) -> Iterator[None]:
    """Have every failure say what OUT is: the old set as it was, or, once files are being moved, soon the new one."""
    try:
        yield
    except DataprepError as error:
        now = (
            "is changing over to the new set, which is complete" if is_pending(out) else "is still the old set, sealed"
        )
        raise type(error)(f"{error} (OUT {out} {now})") from None


def replaced_set(out: Path) -> Dataset:
    """The sealed set in `out` to be replaced. Raises DataprepError when its manifest does not say what it is."""
    try:
        return load_dataset(out)
    except ContractError as error:
        raise DataprepError(
            f"{error}. --overwrite removes what a sound {DATASET} names, and no more: remove {out} yourself"
        ) from None


def check_replacement(out: Path, old: Dataset, plan: Plan) -> None:
    """Raise DataRejected when `plan` seems to be of another SOURCE than the set `old` in `out`: most often a mistyped
    path. It has none of the classes of the set, or less than a tenth of its rows.
    """
    before = {name for label, name in enumerate(old.classes) if any(s.class_rows[label] for s in old.splits.values())}
    rows = [sum(counts) for counts in zip(*plan.class_rows().values(), strict=True)]
    now = {name for label, name in enumerate(plan.classes) if rows[label]}
    if not before or (before & now and plan.item_count >= old.written * LEAST_SHARE):
        return
    why = f"fewer than {LEAST_SHARE:.0%} of these rows" if before & now else "none of these classes"
    raise DataRejected(
        f"OUT {out} was sealed with {_counted(old.written, 'row', before)}; SOURCE {plan.source} holds "
        f"{_counted(plan.item_count, 'image', now)}: {why}. Check SOURCE. If it is meant, move the old set away and "
        f"run the same command again: mv {shlex.quote(str(out))} {shlex.quote(f'{out}.old')}"
    )


def _counted(count: int, noun: str, classes: Set[str]) -> str:
    named = ", ".join(f"'{name}'" for name in sorted(classes)[:3]) + (", ..." if len(classes) > 3 else "")
    return f"{many(count, noun)} in {many(len(classes), 'class', 'classes')} ({named})"


def shard_names(dataset: Dataset) -> list[str]:
    """The shards of all splits."""
    return [shard.name for shard in dataset.shards]


def file_names(dataset: Dataset) -> frozenset[str]:
    """The files of the set in its folder, without the work folder."""
    names = shard_names(dataset)
    return frozenset([*names, *map(index_name, names), DATASET, REJECTS, DUPLICATES, ROW_DIGESTS])


def unfinished(out: Path) -> str | None:
    """What an interrupted command has left beside the sealed set, and what to do about it."""
    for folder, flag in _FLAGS.items():
        begun = out / WORK / folder
        if (begun / WORK / PLAN).is_file():
            return (
                f"an unfinished {flag} lies in {begun}: the command that began it goes on; to give it up, remove that "
                "folder"
            )
    return None


def check_present(source: Path, out: Path, deadline_s: float) -> bool:
    """Whether what lies in `out` was planned from `source`; raises TryLater when that is gone or empty now."""
    folders = (out, *(out / WORK / name for name in _FLAGS))
    planned = any(portable_path(source) in _planned_from(folder) for folder in folders)
    if planned:
        Presence(source, deadline_s).require()
    return planned


def _planned_from(out: Path) -> set[str]:
    """The paths that the job in `out` has read."""
    work = Workdir(out)
    if not work.plan.is_file():
        return set()
    with closing(Plan.open(work.plan)) as plan:
        return {plan.source, *work.found("sources")}


def restart(work: Workdir, write: Callable[[Path], None]) -> None:
    """Have `write` make a new plan; when it is complete it takes the place of the old one and of all that was built."""
    folder = work.folder / RESTART
    try:
        with Workdir(folder) as fresh:
            fresh.save_plan(write)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    with closing(Plan.open(work.plan)) as plan:
        old = [shard.name for shard in plan.shards]
    begin(work.out, RESTART, old)


def retried(plan: Plan, source: str, work: Workdir) -> Mended:
    """The shards with refused files, and of each such file that is there, below `source`, its size and time now.

    A retry that was begun before has built those again whose files were as they are now.
    """
    receipts, known = work.receipts(), work.found("mended")
    found: Mended = {}
    for shard in plan.shards:
        receipt, before = receipts.get(shard.name), known.get(shard.name, {})
        keys = [reject.key for reject in receipt.rejects] if receipt else list(before)
        stats = {key: stat for key in keys if (stat := _stat(source, key))}
        resumed = work.base is not None and all(list(stat) == before.get(key) for key, stat in stats.items())
        if keys and not resumed:
            found[shard.name] = stats
    return found


def _stat(source: str, key: str) -> tuple[int, int] | None:
    try:
        found = os.stat(source_path(source, key))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None  # still not there: it will be refused again
    return size_and_time(found)


def no_job(out: Path) -> DataprepError:
    """What to say of --retry-rejects where nothing was planned."""
    return DataprepError(f"OUT {out} holds no job whose rejects could be retried")


def comes_and_goes(source: str, key: str) -> TryLater:
    """What to say of a file that is refused again and again, and can be read each time."""
    return TryLater(
        f"'{key}' could not be read by a worker, but can be read now: SOURCE {source} comes and goes, or a worker does "
        "not see it as this process does; the same command goes on"
    )
