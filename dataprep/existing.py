"""What a command may do with what OUT holds already: nothing of it goes before what takes its place is complete."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dataprep.absence import Presence
from dataprep.errors import DataprepError, TryLater
from dataprep.keys import source_path
from dataprep.plan import Plan
from dataprep.swap import NEXT, RESTART, RETRY, begin, is_pending
from dataprep.workdir import Workdir
from schemas.dataset import Dataset, load_dataset
from schemas.errors import ContractError
from schemas.layout import DATASET, DUPLICATES, PLAN, REJECTS, WORK, index_name

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


def shard_names(dataset: Dataset) -> list[str]:
    """The shards of all splits."""
    return [shard.name for shard in dataset.shards]


def file_names(dataset: Dataset) -> frozenset[str]:
    """The files of the set in its folder, without the work folder."""
    names = shard_names(dataset)
    return frozenset([*names, *map(index_name, names), DATASET, REJECTS, DUPLICATES])


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
    planned = any(_planned_from(folder) == str(source) for folder in (out, *(out / WORK / name for name in _FLAGS)))
    if planned:
        Presence(source, deadline_s).require()
    return planned


def _planned_from(out: Path) -> str | None:
    path = out / WORK / PLAN
    if not path.is_file():
        return None
    with closing(Plan.open(path)) as plan:
        return plan.source


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


def retried(plan: Plan, work: Workdir) -> Mended:
    """The shards with refused files, and of each such file that is there its size and time now.

    A retry that was begun before has built those again whose files were as they are now.
    """
    receipts, known = work.receipts(), work.found("mended")
    found: Mended = {}
    for shard in plan.shards:
        receipt, before = receipts.get(shard.name), known.get(shard.name, {})
        keys = [reject.key for reject in receipt.rejects] if receipt else list(before)
        stats = {key: stat for key in keys if (stat := _stat(plan.source, key))}
        resumed = work.base is not None and all(list(stat) == before.get(key) for key, stat in stats.items())
        if keys and not resumed:
            found[shard.name] = stats
    return found


def _stat(source: str, key: str) -> tuple[int, int] | None:
    try:
        found = os.stat(source_path(source, key))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None  # still not there: it will be refused again
    return found.st_size, found.st_mtime_ns


def no_job(out: Path) -> DataprepError:
    """What to say of --retry-rejects where nothing was planned."""
    return DataprepError(f"OUT {out} holds no job whose rejects could be retried")


def comes_and_goes(source: str, key: str) -> TryLater:
    """What to say of a file that is refused again and again, and can be read each time."""
    return TryLater(
        f"'{key}' could not be read by a worker, but can be read now: SOURCE {source} comes and goes, or a worker does "
        "not see it as this process does; the same command goes on"
    )
