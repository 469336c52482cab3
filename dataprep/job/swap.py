"""Replace an old dataset or plan by a new one. If the job is killed, the next command completes the replacement.

A dataset has many files, which cannot be renamed atomically. So the new dataset is built, sealed and synced in a folder
of OUT/.work. Then a journal of the moves is written, and the files are moved. Before the journal exists, OUT is the
unchanged old dataset. After that, `finish` can be repeated until OUT is the new one.
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

NEXT = "next"  # in OUT/.work: the dataset built by --overwrite
RETRY = "retry"  # the shards rebuilt by --retry-rejects
RESTART = "restart"  # the plan made by --restart
_PASSING = ("lock", "attempts", "swept-")  # in a work folder: files of a running process
_STATE = (PLAN, RUN_LOG, REJECTS, *NOTES)


def begin(out: Path, origin: str, old: Iterable[str], kept: Iterable[str] = ()) -> None:
    """Replace the content of `out` by OUT/.work/`origin`, which is complete. The caller holds the lock of `out`.

    `old` names the shards to remove, unless they are replaced or listed in `kept`.
    """
    moves = _files(out / WORK / origin)
    remaining = {*moves, *(path for shard in kept for path in _files_of(shard))}
    obsolete = [path for shard in old for path in _files_of(shard)]
    state = [*(f"{WORK}/{name}" for name in _STATE), REPORT, ROW_DIGESTS]
    removes = sorted({*obsolete, *state} - remaining)
    journal = {"from": origin, "removes": removes, "moves": moves}
    write_whole(out / WORK / SWAP, json.dumps(journal).encode())
    kill_point("swap.journal")
    finish(out)


def is_pending(out: Path) -> bool:
    """Return True if `out` has an unfinished replacement."""
    return (out / WORK / SWAP).is_file()


def check_settled(out: Path) -> None:
    """Raise TryLater if `out` has an unfinished replacement after `settle`. The caller holds the lock."""
    if is_pending(out):
        raise TryLater(f"a job that was just killed has left OUT {out} partly replaced; run the command again")


def settle(out: Path) -> None:
    """Finish the replacement of a killed job, if there is one and this user may write.

    Raises TryLater if another job is running.
    """
    if is_pending(out) and os.access(out, os.W_OK) and os.access(out / WORK, os.W_OK):
        with Lock(out / WORK / "lock"):
            if is_pending(out):
                finish(out)


def finish(out: Path) -> None:
    """Make the remaining moves of the journal. The caller holds the lock of `out`."""
    origin, removes, moves = _read(out / WORK / SWAP)
    if (origin / DATASET).is_file():  # OUT has the old one: a mix must not look sealed
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
    for folder in (origin, out / WORK / RETRY):  # an older retry belongs to the removed dataset
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
    """Return the files of a dataset built in `folder`, relative to it."""
    paths = (path.relative_to(folder) for path in files_below(folder))
    return sorted(
        path.as_posix()
        for path in paths
        if not (path.parts[0] == WORK and path.parts[1].startswith((*_PASSING, NEXT, RETRY, RESTART)))
    )


def _files_of(shard: str) -> list[str]:
    """Return the files of a shard, relative to OUT."""
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
