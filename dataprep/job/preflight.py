"""Checks before a job starts.

OUT must be empty, have the same job, or be complete. The disk must have enough space.
"""

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
from dataprep.items import Item, ScanEntry, decode_name, encode_name, portable_path
from dataprep.job.swap import NEXT
from dataprep.options import ShardOptions
from dataprep.plan.sizes import fingerprint, fingerprint_part, rank
from dataprep.plan.store import Plan
from schemas.dataset import Dataset, file_problems, load_dataset
from schemas.errors import ContractError
from schemas.layout import DATASET, PLAN, WORK
from schemas.record import load_schema

_Change = tuple[str, object, object]  # option, old value, new value


def check_target(
    out: Path, source: Path, quarantine: Path | None = None, replaced: frozenset[str] = frozenset()
) -> None:
    """Raise DataprepError if a job must not write to `out` or copy to `quarantine`.

    `out` need not exist. `replaced` names files of a dataset to be overwritten. They may exist without a plan.
    """
    if out.exists() and not out.is_dir():
        raise DataprepError(f"OUT {out} is not a folder")
    if "\udc80" <= max(portable_path(out.absolute())) <= "\udcff":
        raise DataprepError(f"OUT {out} has a name that is not UTF-8, which MindSpore cannot open; choose another name")
    for name, folder in (("OUT", out), ("--quarantine", quarantine)):
        if folder and source.resolve() in (folder.resolve(), *folder.resolve().parents):
            raise DataprepError(f"{name} {folder} is in SOURCE {source}; choose a folder outside it")
    if not out.is_dir() or (out / WORK / PLAN).is_file():
        return
    foreign = sorted(name for name in os.listdir(out) if OURS.fullmatch(name) and name not in replaced)
    if foreign:
        raise DataprepError(
            f"OUT {out} has the file {foreign[0]}, but no job; choose an empty folder, or remove the file"
        )


def check_schema(options: ShardOptions) -> None:
    """Raise DataprepError if --schema is invalid, WrongUsage if there is no such schema or file."""
    try:
        find_record_kind(load_schema(options.schema).kind)
    except ContractError as error:
        kind = DataprepError if Path(options.schema).exists() else WrongUsage
        raise kind(str(error)) from None


def check_options(plan: Plan, options: ShardOptions, out: Path) -> None:
    """Raise DataprepError if the job in `out` was started with other options."""
    _check_same(_changed(plan.options, options), out)


def is_planned_path(plan: Plan, source: str) -> bool:
    """Return True if `source` is the path in the plan, or resolves to it.

    The planned path is not resolved, because it may be on a server that does not answer.
    """
    return plan.source in (source, decode_name(os.path.realpath(encode_name(source))))


def check_inputs(
    plan: Plan, source: str, fixed: dict[str, Any], rescan: Callable[[], Iterator[ScanEntry]], out: Path,
    presence: Presence,
) -> None:  # fmt: skip
    """Raise DataprepError for the first file that differs from the plan, TryLater if `source` is absent.

    The path may differ: only files, sizes and times are compared. `rescan` reads the folders again. `fixed` are files
    that the user has changed on purpose, see --retry-rejects.
    """
    seed = plan.options["seed"]
    parts = (fingerprint_part(rank(seed, key), size, mtime_ns) for key, _, _, size, mtime_ns in _items(rescan()))
    if plan.fingerprint == fingerprint(sum(parts)):
        return
    known = {key: stats for files in fixed.values() for key, stats in files.items()}
    difference = plan.first_difference(_items(rescan()), known)
    if difference:
        presence.require([difference[0]])
        if not is_planned_path(plan, source):
            raise DataprepError(
                f"the job in OUT {out} was started with SOURCE {plan.source}, and {source} differs: '{difference[0]}' "
                f"{difference[1]} (copies must keep file times: cp -a, rsync -a); use the first SOURCE, "
                f"{_new_start(out)}, or another OUT"
            )
        raise DataprepError(
            f"SOURCE {plan.source} has changed since the job in OUT {out} was started: "
            f"'{difference[0]}' {difference[1]}; use {_new_start(out)}"
        )


def _items(entries: Iterator[ScanEntry]) -> Iterator[Item]:
    return (entry for entry in entries if isinstance(entry, Item))


def _changed(saved: dict[str, object], options: ShardOptions) -> list[_Change]:
    asked = options.deciding()
    return [
        ("--" + name.replace("_", "-"), saved.get(name), value)
        for name, value in asked.items()
        if saved.get(name) != value
    ]


def _check_same(changes: list[_Change], out: Path) -> None:
    """Raise DataprepError if there are changes; the message names all of them."""
    if changes:
        before = ", ".join(f"{what} {_shown(old)}" for what, old, _ in changes)
        now = ", ".join(_shown(new) if len(changes) == 1 else f"{what} {_shown(new)}" for what, _, new in changes)
        raise DataprepError(
            f"the job in OUT {out} was started with {before}, but this command has {now}; use the same options to "
            f"resume, {_new_start(out)}, or another OUT"
        )


def _new_start(out: Path) -> str:
    """Return the option that starts again.

    It depends on whether OUT has a sealed dataset, its unfinished replacement, or an unfinished job.
    """
    if out.parent.name == WORK:
        return "--overwrite --restart to start again" if out.name == NEXT else f"--retry-rejects after removing {out}"
    return "--overwrite to replace the sealed dataset" if (out / DATASET).is_file() else "--restart to start again"


def _shown(value: object) -> str:
    return "unset" if value is None else f"{value!r:.100}"


def completed(out: Path, options: ShardOptions, check_source: Callable[[Plan], None]) -> Dataset | None:
    """Return the sealed dataset in `out` if it has these options; None if nothing is sealed.

    `check_source` is called with the plan, if there is one, and raises if SOURCE has other files. Raises DataprepError
    if the dataset has other options, or if its files have changed since it was sealed.
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
            f"OUT {out} is sealed but damaged: {problems[0]}; run 'dataprep verify', or replace it with --overwrite"
        )
    return dataset


def check_space(out: Path, needed: int, beside: bool = False) -> None:
    """Raise TryLater if the disk of `out` has less than `needed` bytes free.

    `beside` is True if an old dataset remains.
    """
    free = free_bytes(out)
    if free is not None and free < needed:
        raise TryLater(
            f"the disk of OUT {out} has {free >> 20} MiB free, but about {needed >> 20} MiB are needed"
            f"{' in addition to the old dataset' if beside else ''}; free some space"
        )


def free_bytes(folder: Path) -> int | None:
    """Return the free bytes on the disk of `folder`; None if unknown. Some FUSE mounts report 0 of 0."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.ENOTSUP):
            return None
        raise
    return usage.free if usage.total else None
