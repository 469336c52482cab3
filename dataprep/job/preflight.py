"""What may be done to OUT: is it free, is it this job's, is it already complete; and taking an old set away."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from dataprep.build.absence import Presence
from dataprep.build.records import find_record_kind
from dataprep.build.workdir import OURS
from dataprep.errors import DataprepError, TryLater, WrongUsage
from dataprep.items import Found, Item, decode_name, encode_name, portable_path
from dataprep.job.swap import NEXT
from dataprep.options import ShardOptions
from dataprep.plan.sizes import fingerprint, fingerprint_part, rank
from dataprep.plan.store import Plan
from schemas.dataset import Dataset, file_problems, load_dataset
from schemas.errors import ContractError
from schemas.layout import DATASET, PLAN, WORK
from schemas.record import load_schema

_Change = tuple[str, object, object]  # an option, what it was, what it is now


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
    """Raise DataprepError unless --schema names one: WrongUsage where there is neither such a schema nor a file."""
    try:
        find_record_kind(load_schema(options.schema).kind)
    except ContractError as error:
        kind = DataprepError if Path(options.schema).exists() else WrongUsage
        raise kind(str(error)) from None


def check_options(plan: Plan, options: ShardOptions, out: Path) -> None:
    """Raise DataprepError when the job that planned `out` was asked for something else."""
    _check_same(_changed(plan.options, options), out)


def is_planned_path(plan: Plan, source: str) -> bool:
    """Return True if `source` is the path that the plan was made from, or leads there by links and `..`.

    Only the path in use is followed: the planned one may lie on a server that does not answer.
    """
    return plan.source in (source, decode_name(os.path.realpath(encode_name(source))))


def check_inputs(
    plan: Plan, source: str, mended: dict[str, Any], rescan: Callable[[], Iterator[Found]], out: Path,
    presence: Presence,
) -> None:  # fmt: skip
    """Raise DataprepError, naming the first file, when `source` does not hold what was planned; TryLater when it is
    away. It need not be the path that was planned from: files, sizes and times count.

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
        if not is_planned_path(plan, source):
            raise DataprepError(
                f"OUT {out} was begun with SOURCE {plan.source}, and {source} does not hold the same: "
                f"'{difference[0]}' {difference[1]} (a copy needs its files' times: cp -a, rsync -a); go on with the "
                f"former, give {_anew(out)}, or another OUT"
            )
        raise DataprepError(
            f"SOURCE {plan.source} is not as it was when OUT {out} was begun: '{difference[0]}' {difference[1]}; "
            f"give {_anew(out)}"
        )


def _items(found: Iterator[Found]) -> Iterator[Item]:
    return (entry for entry in found if isinstance(entry, Item))


def _changed(saved: dict[str, Any], options: ShardOptions) -> list[_Change]:
    asked = options.deciding()
    return [
        ("--" + name.replace("_", "-"), saved.get(name), value)
        for name, value in asked.items()
        if saved.get(name) != value
    ]


def _check_same(changes: list[_Change], out: Path) -> None:
    """Raise DataprepError, naming every change, unless there is none."""
    if changes:
        before = ", ".join(f"{what} {_shown(old)}" for what, old, _ in changes)
        now = ", ".join(_shown(new) if len(changes) == 1 else f"{what} {_shown(new)}" for what, _, new in changes)
        raise DataprepError(
            f"OUT {out} was begun with {before}, this command says {now}; give the same options to go on, "
            f"{_anew(out)}, or another OUT"
        )


def _anew(out: Path) -> str:
    """What begins anew, for a sealed set, for what is built beside one (see existing.py), or for an unfinished job."""
    if out.parent.name == WORK:
        return "--overwrite --restart to begin anew" if out.name == NEXT else f"--retry-rejects once {out} is removed"
    return "--overwrite to replace the sealed set" if (out / DATASET).is_file() else "--restart to begin anew"


def _shown(value: object) -> str:
    return "unset" if value is None else f"{value!r:.100}"


def completed(out: Path, options: ShardOptions, check_source: Callable[[Plan], None]) -> Dataset | None:
    """The sealed dataset in `out` when it is what this command asks for; None when nothing is sealed there.

    `check_source` is given the plan, if there is one, and raises where this command reads other files.

    Raises DataprepError when it is another set, or when its files are no longer as they were sealed.
    """
    if not (out / DATASET).is_file():
        return None
    dataset = load_dataset(out)
    plan = out / WORK / PLAN
    if plan.is_file():
        with closing(Plan.open(plan)) as saved:
            check_options(saved, options, out)
            check_source(saved)
    _check_same(_changed(dict(dataset.plan.get("options", {})), options), out)
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
