"""Crash safety in one place: the lock, the saved plan, attempts, receipts, commit and seal.

A file gets its final name whole and synced, or not at all. The receipt of a shard is written after its files are in
place, and dataset.json after everything: what lies on disk after a kill at any point is told apart from what is done.
"""

import hashlib
import json
import os
import re
import shutil
import socket
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

from dataprep.build.kill_points import kill_point
from dataprep.build.lock import Lock
from dataprep.build.receipt import CURRENT, LATE, ROWS, Excluded, Receipt
from dataprep.errors import DataprepError
from dataprep.items import Reject
from schemas.dataset import Dataset, RowDigestsFile
from schemas.layout import DATASET, DUPLICATES, PLAN, REJECTS, ROW_DIGESTS, RUN_LOG, SPLITS, WORK, index_name
from schemas.storage.files import give_group, listing, sync

NOTES = ("pages.json", "excluded.json", "mended.json")  # what Workdir.keep has kept
LISTS = (DATASET, REJECTS, DUPLICATES, ROW_DIGESTS)
OURS = re.compile(rf"({'|'.join(SPLITS)})\.mindrecord\d+(\.db)?|{'|'.join(map(re.escape, LISTS))}")


class Workdir:
    """OUT and OUT/.work, held by one job at a time. Enter it to take the lock; raises TryLater when it is held.

    `base` is the sealed set of which this job builds a few shards again: all others are still there and not in `out`.
    """

    def __init__(self, out: Path, base: Path | None = None) -> None:
        self.out = out
        self.base = base
        self.folder = out / WORK
        self.plan = self.folder / PLAN
        self.attempts = self.folder / "attempts"
        self._receipts = self.folder / "receipts"
        self._log = self.folder / RUN_LOG

    def __enter__(self) -> "Workdir":
        try:
            self._receipts.mkdir(parents=True, exist_ok=True)
        except (PermissionError, FileNotFoundError, NotADirectoryError) as error:
            raise DataprepError(f"cannot write to OUT {self.out}: {error.strerror}") from None
        self._lock = Lock(self.folder / "lock")
        self._lock.__enter__()
        self._sweep()
        self.attempts.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._sweep()
        finally:
            self._lock.__exit__()

    def _sweep(self) -> None:
        """Take away what a killed job was writing."""
        # A worker on another machine may still be writing there. Under a new name no file can be added behind rmtree.
        with suppress(OSError):
            self.attempts.rename(self.folder / f"swept-{uuid.uuid4().hex}")
        for swept in listing(self.folder, "swept-*"):
            shutil.rmtree(swept, ignore_errors=True)
        parts = [path for path in listing(self.out, "*.part") if OURS.fullmatch(path.stem)]  # others are the user's
        for part in [*parts, *listing(self.folder, "*.part"), *listing(self._receipts, "*.part")]:
            part.unlink(missing_ok=True)

    def save_plan(self, write: Callable[[Path], None]) -> None:
        """Let `write` make the plan's file, and give it its name when it is whole."""
        part = self.plan.with_suffix(".part")
        write(part)
        kill_point("plan.written")
        sync(part)
        _move(part, self.plan)
        kill_point("plan.saved")

    def receipts(self) -> dict[str, Receipt]:
        """Receipts of the shards whose files are in place, by shard name."""
        found = {}
        for path in listing(self._receipts, "*.json"):
            try:
                receipt = Receipt.from_json(path.read_bytes())
            except (ValueError, KeyError, TypeError):
                continue
            if self._in_place(receipt):
                found[receipt.shard.name] = receipt
        return found

    def _in_place(self, receipt: Receipt) -> bool:
        shard = receipt.shard
        for name, size in ((shard.name, shard.bytes), (index_name(shard.name), shard.index_bytes)):
            path = self.file(name)
            if not path.is_file() or path.stat().st_size != size:
                return False
        return self.rows(shard.name).is_file()

    def why_missing(self, shard: str) -> str:
        """Why a shard counts as missing that has no place in receipts()."""
        path = self._receipts / f"{shard}.json"
        try:
            Receipt.from_json(path.read_bytes())
        except FileNotFoundError:
            return "not built yet"
        except (ValueError, KeyError, TypeError):
            return "receipt damaged"
        return "files missing or of another size"

    def rows(self, shard: str) -> Path:
        """The file that notes the rows of a committed shard, see receipt.NotedRow."""
        return self.file(rows_file(Path(), shard))

    def file(self, name: str | Path) -> Path:
        """A file of this job by its name in OUT: in `out`, or in the set that it started from."""
        own = self.out / name
        return own if self.base is None or own.is_file() else self.base / name

    def commit(self, receipt: Receipt) -> None:
        """Move a built shard into place, then write its receipt."""
        assert receipt.attempt is not None, "a kept receipt was committed before"
        name = receipt.shard.name
        _move(receipt.attempt / name, self.out / name)
        kill_point("commit.data")
        _move(receipt.attempt / index_name(name), self.out / index_name(name))
        kill_point("commit.index")
        _move(receipt.attempt / ROWS, rows_file(self.out, name))
        kill_point("commit.rows")
        write_whole(self._receipts / f"{name}.json", receipt.to_json())
        self.drop(receipt)
        kill_point("commit.receipt")

    def drop(self, receipt: Receipt) -> None:
        """Take away what is left of an attempt."""
        if receipt.attempt is not None:
            shutil.rmtree(receipt.attempt, ignore_errors=True)

    def suspect(self, shard: str) -> str | None:
        """The key of the file that the last worker on `shard` had at hand when it died."""
        attempts = sorted(listing(self.attempts, f"{shard}-*"), key=lambda path: path.stat().st_mtime_ns)
        with suppress(OSError, ValueError, IndexError):
            return _current(attempts[-1])[0]
        return None

    def timeouts(self, shard: str) -> Counter[str]:
        """The keys over which workers on `shard` were ended because decoding took too long, and how often."""
        keys: Counter[str] = Counter()
        for attempt in listing(self.attempts, f"{shard}-*"):
            with suppress(OSError, ValueError, IndexError):
                if (attempt / LATE).stat().st_size:
                    keys[_current(attempt)[0]] += 1
        return keys

    def under_way(self, shards: Set[str]) -> int:
        """How many files of these shards workers have dealt with so far."""
        done: Counter[str] = Counter()
        for attempt in listing(self.attempts, "*-*"):  # listed once: a cluster has hundreds, on a file system far away
            shard = attempt.name.rpartition("-")[0]  # behind it is what mkdtemp has added
            if shard in shards:
                with suppress(OSError, ValueError, IndexError):
                    done[shard] = max(done[shard], _current(attempt)[1])
        return done.total()

    # What turned out while building, so that shards must be built again: kept by name, for the next run too.

    def found(self, name: str) -> dict[str, Any]:
        """What is kept under `name`: `pages` (split -> page size); by shard `excluded` (key -> reason, detail) and
        `mended` (key -> size, time).
        """
        try:
            kept: dict[str, Any] = json.loads((self.folder / f"{name}.json").read_bytes())
            return kept
        except FileNotFoundError:
            return {}

    def keep(self, name: str, values: dict[str, Any]) -> None:
        """Add to what is kept under `name`."""
        write_whole(self.folder / f"{name}.json", json.dumps(self.found(name) | values).encode())

    def exclude(self, shard: str, excluded: Excluded) -> None:
        """Have `shard` built without these files."""
        self.keep("excluded", {shard: self.found("excluded").get(shard, {}) | excluded})
        kill_point("exclude.saved")

    def forget(self, shard: str, mended: dict[str, tuple[int, int]]) -> None:
        """Have `shard` built again, with these files as they are now and none excluded."""
        self.keep("mended", {shard: self.found("mended").get(shard, {}) | mended})
        self.keep("excluded", {shard: {}})
        self.rebuild(shard)

    def rebuild(self, shard: str) -> None:
        """Have `shard` built again as it was planned."""
        (self._receipts / f"{shard}.json").unlink(missing_ok=True)

    def start_from(self, base: "Workdir", mended: dict[str, dict[str, tuple[int, int]]]) -> None:
        """Take over the job of the sealed set `base`, but for the shards of `mended`: these are to be built again.

        The plan comes last: without it there is no job here, and the next try begins again.
        """
        for path in (*listing(base._receipts, "*.json"), *(base.folder / name for name in (*NOTES, RUN_LOG))):
            if path.is_file():
                write_whole(self.folder / path.relative_to(base.folder), path.read_bytes())
        for shard, files in mended.items():
            self.forget(shard, files)
        self.save_plan(lambda part: _copy(base.plan, part))

    def save_rejects(self, rejects: list[Reject]) -> Path:
        """List what a job refused that is not sealed, for the person who must decide; the file's path."""
        path = self.folder / REJECTS
        write_whole(path, json_lines(reject.to_dict() for reject in rejects))
        return path

    def save_row_digests(self, digests: Iterable[bytes]) -> RowDigestsFile:
        """Write the digests of all rows, which come in the order of splits, shards and rows."""
        saved = save_row_digests(self.out, digests)
        kill_point("seal.row_digests")
        return saved

    def seal(self, dataset: Dataset, rejects: list[Reject], duplicates: Iterable[dict[str, Any]]) -> None:
        """Write the lists and then dataset.json: the set is complete when the latter is there."""
        write_whole(self.out / REJECTS, json_lines(reject.to_dict() for reject in rejects))
        (self.folder / REJECTS).unlink(missing_ok=True)
        kill_point("seal.rejects")
        write_whole(self.out / DUPLICATES, json_lines(duplicates))
        kill_point("seal.duplicates")
        self._sweep()  # before the manifest: nobody looks into a folder that is complete
        write_whole(self.out / DATASET, dataset.to_json())
        kill_point("seal.manifest")

    def log(self, event: str, **values: Any) -> None:
        """Append to the run log: the place for clock, host and speed, which no other file holds."""
        line = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "host": socket.gethostname(), "event": event} | values
        with self._log.open("a") as log:
            log.write(json.dumps(line) + "\n")


def _current(attempt: Path) -> tuple[str, int]:
    """The key that a worker has at hand, and how many files it has done."""
    key, done = json.loads((attempt / CURRENT).read_text().splitlines()[0])
    return key, done


def _copy(path: Path, part: Path) -> None:
    shutil.copyfile(path, part)


def rows_file(out: Path, shard: str) -> Path:
    """Where a dataset folder keeps what was noted of a shard's rows; a copied set may come without it."""
    return out / WORK / "receipts" / f"{shard}.{ROWS}"


def json_lines(values: Iterable[dict[str, Any]]) -> bytes:
    """The bytes of a file with one JSON object a line."""
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is there whole or not at all, also after a power cut."""
    write_pieces(path, (data,))


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Do the same with a file that need not fit into memory."""
    part = _part(path)
    with part.open("wb") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())
    _move(part, path)


def save_row_digests(out: Path, digests: Iterable[bytes]) -> RowDigestsFile:
    """Write the file of row digests, and return its entry in the manifest."""
    whole = hashlib.sha256()
    size = 0

    def pieces() -> Iterator[bytes]:
        nonlocal size
        for digest in digests:
            whole.update(digest)
            size += len(digest)
            yield digest

    write_pieces(out / ROW_DIGESTS, pieces())
    return RowDigestsFile(size, whole.hexdigest())


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def write_output(path: Path, data: bytes) -> None:
    """Write a file that a user has named: whole or not at all, through links, and into a device or pipe as it is."""
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    target = path.resolve()
    try:
        write_whole(target, data)
    except OSError:
        _part(target).unlink(missing_ok=True)  # no job sweeps this folder
        raise


def _move(part: Path, path: Path) -> None:
    rename_into(part, path)
    sync(path.parent)


def rename_into(part: Path, path: Path) -> None:
    """Give a whole file its name, and the group of the folder where this user may; the caller syncs the folder."""
    give_group(part, path.parent.stat().st_gid)
    os.replace(part, path)
