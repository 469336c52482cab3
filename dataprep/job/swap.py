"""Puts a finished set, or a new plan, in the place of an old one; killed on the way, whoever comes next finishes it.

A set is many files, and no system renames many files at once. So the new set is built, sealed and synced in a folder in
OUT/.work, a journal is written there that says what is to be moved, and then it is moved. Before the journal is there
OUT is the old set, untouched; from then on it is the new one, and `finish` may be called as often as it takes.
"""

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from dataprep.build.kill_points import kill_point
from dataprep.build.lock import Lock
from dataprep.build.receipt import ROWS
from dataprep.build.workdir import NOTES, rename_into, write_whole
from dataprep.errors import DataprepError, TryLater
from schemas.layout import DATASET, PLAN, REJECTS, REPORT, ROW_DIGESTS, RUN_LOG, SWAP, WORK, index_name
from schemas.storage.files import files_below, sync

NEXT = "next"  # in OUT/.work: the set that --overwrite builds
RETRY = "retry"  # the shards that --retry-rejects builds again
RESTART = "restart"  # the plan that --restart makes
_PASSING = ("lock", "attempts", "swept-")  # in a work folder: of the process that worked there
_STATE = (PLAN, RUN_LOG, REJECTS, *NOTES)


def begin(out: Path, origin: str, old: Iterable[str], kept: Iterable[str] = ()) -> None:
    """Replace what is in `out` by what is complete in OUT/.work/`origin`. The caller holds the lock of `out`.

    `old` names the shards that go, unless they are replaced or among the `kept` ones.
    """
    moves = _files(out / WORK / origin)
    staying = {*moves, *(path for shard in kept for path in _traces(shard))}
    known = [path for shard in old for path in _traces(shard)]
    state = [*(f"{WORK}/{name}" for name in _STATE), REPORT, ROW_DIGESTS]
    removes = sorted({*known, *state} - staying)
    journal = {"from": origin, "removes": removes, "moves": moves}
    write_whole(out / WORK / SWAP, json.dumps(journal).encode())
    kill_point("swap.journal")
    finish(out)


def is_pending(out: Path) -> bool:
    """Whether a journal in `out` waits to be finished."""
    return (out / WORK / SWAP).is_file()


def check_settled(out: Path) -> None:
    """Raise TryLater when a job was killed over a swap since `settle` was called. The caller holds the lock."""
    if is_pending(out):
        raise TryLater(f"OUT {out} was left half changed by a job that was killed just now; run the command again")


def settle(out: Path) -> None:
    """Finish what a killed job has left half moved. Does nothing where there is none, or this user may not write.

    Raises TryLater when another job is at it.
    """
    if is_pending(out) and os.access(out, os.W_OK) and os.access(out / WORK, os.W_OK):
        with Lock(out / WORK / "lock"):
            if is_pending(out):
                finish(out)


def finish(out: Path) -> None:
    """Do what the journal says and is not done yet. The caller holds the lock of `out`."""
    origin, removes, moves = _read(out / WORK / SWAP)
    if (origin / DATASET).is_file():  # the one in OUT is still the old one: no reader must take a mix for sealed
        (out / DATASET).unlink(missing_ok=True)
        sync(out)
    for name in removes:
        (out / name).unlink(missing_ok=True)
    kill_point("swap.removed")
    for name in moves:
        if name != DATASET:
            _move(origin / name, out / name)
    for folder in sorted({(out / name).parent for name in moves}):
        sync(folder)
    kill_point("swap.files")
    if DATASET in moves:
        _move(origin / DATASET, out / DATASET)
        sync(out)
    kill_point("swap.manifest")
    for folder in (origin, out / WORK / RETRY):  # a retry that was begun before is of a set that is gone
        shutil.rmtree(folder, ignore_errors=True)
    kill_point("swap.cleaned")
    (out / WORK / SWAP).unlink()
    sync(out / WORK)


def _move(path: Path, target: Path) -> None:
    if path.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        rename_into(path, target)
        kill_point("swap.moved")


def _files(folder: Path) -> list[str]:
    """The files of a set that was built in `folder`, relative to it."""
    found = (path.relative_to(folder) for path in files_below(folder))
    return sorted(
        path.as_posix()
        for path in found
        if not (path.parts[0] == WORK and path.parts[1].startswith((*_PASSING, NEXT, RETRY, RESTART)))
    )


def _traces(shard: str) -> list[str]:
    """The files that belong to a shard, relative to OUT."""
    return [shard, index_name(shard), *(f"{WORK}/receipts/{shard}.{ending}" for ending in ("json", ROWS))]


def _read(journal: Path) -> tuple[Path, list[str], list[str]]:
    try:
        value = json.loads(journal.read_bytes())
        origin, removes, moves = value["from"], list(value["removes"]), list(value["moves"])
        paths = [PurePosixPath(name) for name in (*removes, *moves)]
    except (ValueError, KeyError, TypeError):
        raise DataprepError(f"{journal} was edited; restore it from a copy") from None
    if origin not in (NEXT, RETRY, RESTART) or any(path.is_absolute() or ".." in path.parts for path in paths):
        raise DataprepError(f"{journal} names files outside its folder; it was edited")
    return journal.parent / origin, removes, moves
