"""What may be done to OUT: is it free, is it this job's, is it already complete; and taking an old set away."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from dataprep.absence import Presence
from dataprep.errors import DataprepError, TryLater
from dataprep.item import Found, Item
from dataprep.keys import portable_path
from dataprep.options import ShardOptions
from dataprep.place import fingerprint, fingerprint_part, rank
from dataprep.plan import Plan
from dataprep.swap import NEXT
from dataprep.workdir import OURS
from schemas.dataset import Dataset, file_problems, load_dataset
from schemas.errors import ContractError
from schemas.layout import DATASET, PLAN, WORK
from schemas.record import load_schema


def check_target(
    out: Path, source: Path, quarantine: Path | None = None, replaced: frozenset[str] = frozenset()
) -> None:
    """Raise DataprepError unless a job may write into `out`, which need not exist, and copy into `quarantine`.

    `replaced` names files that may be there without a job of theirs: of a copied set that is to be overwritten.
    """
    if out.exists() and not out.is_dir():
        raise DataprepError(f"OUT {out} is not a folder")
    if "\udc80" <= max(portable_path(out.absolute())) <= "\udcff":
        raise DataprepError(f"OUT {out} has a name that is not UTF-8, which MindSpore cannot open; choose another")
    for name, folder in (("OUT", out), ("--quarantine", quarantine)):
        if folder and source.resolve() in (folder.resolve(), *folder.resolve().parents):
            raise DataprepError(f"{name} {folder} lies in SOURCE {source}; choose a folder outside it")
    if not out.is_dir() or (out / WORK / PLAN).is_file():
        return
    foreign = sorted(name for name in os.listdir(out) if OURS.fullmatch(name) and name not in replaced)
    if foreign:
        raise DataprepError(
            f"OUT {out} holds {foreign[0]}, which no job in it has written; choose an empty folder, or remove the file"
        )


def check_schema(options: ShardOptions) -> None:
    """Raise DataprepError unless --schema names one."""
    try:
        load_schema(options.schema)
    except ContractError as error:
        raise DataprepError(str(error)) from None


def check_options(plan: Plan, source: str, options: ShardOptions, out: Path) -> None:
    """Raise DataprepError when the job that planned `out` read another folder or was asked for something else."""
    if plan.source != source:
        raise DataprepError(_differs(out, "SOURCE", plan.source, source))
    _compare(plan.options, options, out)


def check_inputs(
    plan: Plan, mended: dict[str, Any], rescan: Callable[[], Iterator[Found]], out: Path, presence: Presence
) -> None:
    """Raise DataprepError, naming the first file, when SOURCE is no longer what was planned; TryLater when it is away.

    `rescan` reads the folders again. `mended` are files that the user has changed on purpose, see --retry-rejects.
    """
    seed = plan.options["seed"]
    parts = (fingerprint_part(rank(seed, key), size, mtime_ns) for key, _, _, size, mtime_ns in _items(rescan()))
    if plan.fingerprint == fingerprint(sum(parts)):
        return
    known = {key: stats for files in mended.values() for key, stats in files.items()}
    difference = plan.first_difference(_items(rescan()), known)
    if difference:
        presence.require([difference[0]])
        raise DataprepError(
            f"SOURCE {plan.source} is not as it was when OUT {out} was begun: '{difference[0]}' {difference[1]}; "
            f"give {_anew(out)}"
        )


def _items(found: Iterator[Found]) -> Iterator[Item]:
    return (entry for entry in found if isinstance(entry, Item))


def _compare(saved: dict[str, Any], options: ShardOptions, out: Path) -> None:
    for name, value in options.deciding().items():
        if saved.get(name) != value:
            raise DataprepError(_differs(out, "--" + name.replace("_", "-"), saved.get(name), value))


def _differs(out: Path, what: str, before: object, now: object) -> str:
    return (
        f"OUT {out} was begun with {what} {_shown(before)}, this command says {_shown(now)}; give the same options "
        f"to go on, {_anew(out)}, or another OUT"
    )


def _anew(out: Path) -> str:
    """What begins anew, for a sealed set, for what is built beside one (see existing.py), or for an unfinished job."""
    if out.parent.name == WORK:
        return "--overwrite --restart to begin anew" if out.name == NEXT else f"--retry-rejects once {out} is removed"
    return "--overwrite to replace the sealed set" if (out / DATASET).is_file() else "--restart to begin anew"


def _shown(value: object) -> str:
    return "unset" if value is None else f"{value!r:.100}"


def completed(out: Path, source: str, options: ShardOptions) -> Dataset | None:
    """The sealed dataset in `out` when it is what this command asks for; None when nothing is sealed there.

    Raises DataprepError when it is another set, or when its files are no longer as they were sealed.
    """
    if not (out / DATASET).is_file():
        return None
    dataset = load_dataset(out)
    plan = out / WORK / PLAN
    if plan.is_file():
        with closing(Plan.open(plan)) as saved:
            check_options(saved, source, options, out)
    _compare(dict(dataset.plan.get("options", {})), options, out)
    problems = [p for split in dataset.splits.values() for p in file_problems(out, split.shards)]
    if problems:
        raise DataprepError(
            f"OUT {out} is sealed but damaged: {problems[0]}; look with 'dataprep verify', replace it with --overwrite"
        )
    return dataset


def check_space(out: Path, needed: int, beside: bool = False) -> None:
    """Raise TryLater when the disk of `out` has fewer than `needed` bytes left; `beside` an old set that stays."""
    free = free_bytes(out)
    if free is not None and free < needed:
        raise TryLater(
            f"the disk of OUT {out} has {free >> 20} MiB free, about {needed >> 20} MiB are needed"
            f"{' beside the old set' if beside else ''}; make room"
        )


def free_bytes(folder: Path) -> int | None:
    """Bytes left on the disk of `folder`; None where its file system does not tell: some FUSE mounts say 0 of 0."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.ENOTSUP):
            return None
        raise
    return usage.free if usage.total else None
