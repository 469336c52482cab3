"""What may be done to OUT: is it free, is it this job's, is it already complete; and taking an old set away."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from dataprep.errors import DataprepError, TryLater
from dataprep.item import Found, Item
from dataprep.keys import portable_path
from dataprep.options import ShardOptions
from dataprep.place import fingerprint, fingerprint_part, rank
from dataprep.plan import Plan
from dataprep.workdir import Workdir
from schemas.dataset import Dataset, file_problems, load_dataset
from schemas.errors import ContractError
from schemas.layout import DATASET, DUPLICATES, REJECTS, REPORT, SPLITS, WORK, index_name
from schemas.record import load_schema

_OURS = re.compile(
    rf"({'|'.join(SPLITS)})\.mindrecord\d+(\.db)?|{'|'.join(map(re.escape, (DATASET, REJECTS, DUPLICATES)))}"
)


def check_target(out: Path, source: Path, quarantine: Path | None = None) -> None:
    """Raise DataprepError unless a job may write into `out`, which need not exist, and copy into `quarantine`."""
    if out.exists() and not out.is_dir():
        raise DataprepError(f"OUT {out} is not a folder")
    if "\udc80" <= max(portable_path(out.absolute())) <= "\udcff":
        raise DataprepError(f"OUT {out} has a name that is not UTF-8, which MindSpore cannot open; choose another")
    for name, folder in (("OUT", out), ("--quarantine", quarantine)):
        if folder and source.resolve() in (folder.resolve(), *folder.resolve().parents):
            raise DataprepError(f"{name} {folder} lies in SOURCE {source}; choose a folder outside it")
    if not out.is_dir() or (out / WORK / "plan.sqlite").is_file():
        return
    foreign = sorted(name for name in os.listdir(out) if _OURS.fullmatch(name))
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


def check_inputs(plan: Plan, mended: dict[str, Any], rescan: Callable[[], Iterator[Found]], out: Path) -> None:
    """Raise DataprepError, naming the first file, when SOURCE is no longer what was planned.

    `rescan` reads the folders again. `mended` are files that the user has changed on purpose, see --retry-rejects.
    """
    seed = plan.options["seed"]
    parts = (fingerprint_part(rank(seed, key), size, mtime_ns) for key, _, _, size, mtime_ns in _items(rescan()))
    if plan.fingerprint == fingerprint(sum(parts)):
        return
    known = {key: stats for files in mended.values() for key, stats in files.items()}
    difference = plan.first_difference(_items(rescan()), known)
    if difference:
        raise DataprepError(
            f"SOURCE {plan.source} is not as it was when OUT {out} was begun: {difference}; --restart begins anew"
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
    plan = out / WORK / "plan.sqlite"
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


def check_space(out: Path, needed: int) -> None:
    """Raise TryLater when the disk of `out` has fewer than `needed` bytes left."""
    free = shutil.disk_usage(out).free
    if free < needed:
        raise TryLater(
            f"the disk of OUT {out} has {free >> 20} MiB free, about {needed >> 20} MiB are needed; make room"
        )


def remove_sealed(out: Path) -> None:
    """Take away exactly the set that OUT/dataset.json names, and the work folder (--overwrite).

    Raises DataprepError when there is none. Killed on the way, it is finished by the next call.
    """
    doomed = out / WORK / "removing.json"
    if not doomed.is_file():
        if not (out / DATASET).is_file():
            return
        try:
            load_dataset(out)
        except ContractError as error:
            raise DataprepError(
                f"{error}. --overwrite removes what a sound {DATASET} names, and no more: remove {out} yourself"
            ) from None
        doomed.parent.mkdir(exist_ok=True)
        os.replace(out / DATASET, doomed)
    try:
        dataset = Dataset.from_json(doomed.read_bytes(), str(doomed))
    except ContractError as error:
        raise DataprepError(f"cannot finish removing the old set: {error}") from None
    _remove(out, [shard.name for split in dataset.splits.values() for shard in split.shards])


def restart(out: Path) -> None:
    """Take away what an unfinished job has planned and built in `out` (--restart). Raises DataprepError if sealed."""
    if (out / DATASET).is_file():
        raise DataprepError(f"OUT {out} is sealed; --restart is for unfinished jobs, --overwrite removes a sealed set")
    with Workdir(out) as work:
        names = [s.name for s in _planned(work)]
    _remove(out, names)


def _planned(work: Workdir) -> list[Any]:
    if not work.plan.is_file():
        return []
    with closing(Plan.open(work.plan)) as plan:
        return plan.shards


def _remove(out: Path, shards: list[str]) -> None:
    for name in [*shards, *map(index_name, shards), REJECTS, DUPLICATES, REPORT]:
        (out / name).unlink(missing_ok=True)
    shutil.rmtree(out / WORK, ignore_errors=True)
