"""Crash safety: the lock, the saved plan, attempts, receipts, commit and seal.

A file gets its final name only when it is complete and synced. The receipt of a shard is written after its files are in
place, and dataset.json last. So after a kill at any point, finished work can be told from unfinished work.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

from dataprep.build.kill_points import kill_point
from dataprep.build.lock import Lock
from dataprep.build.receipt import CURRENT, LATE, ROWS, Excluded, Receipt
from dataprep.errors import DataprepError
from dataprep.items import UNPACKED, Reject
from schemas.dataset import Dataset, RowDigestsFile
from schemas.layout import DATASET, DUPLICATES, PLAN, REJECTS, ROW_DIGESTS, RUN_LOG, SPLITS, WORK, index_name
from schemas.storage.files import give_group, listing, sync

NOTES = ("pages.json", "excluded.json", "fixed.json")  # files of Workdir.add_notes
LISTS = (DATASET, REJECTS, DUPLICATES, ROW_DIGESTS)
OURS = re.compile(rf"({'|'.join(SPLITS)})\.mindrecord\d+(\.db)?|{'|'.join(map(re.escape, LISTS))}")


class Workdir:
    """OUT and OUT/.work. Entering it takes the lock and raises TryLater if another job holds it.

    `base` is the sealed dataset of which this job rebuilds some shards. The other shards exist only there.
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
        """Delete unfinished files of a killed job."""
        # A worker on another machine may still write there. After the rename it cannot add files during rmtree.
        with suppress(OSError):
            self.attempts.rename(self.folder / f"swept-{uuid.uuid4().hex}")
        for swept in listing(self.folder, "swept-*"):
            shutil.rmtree(swept, ignore_errors=True)
        parts = [path for path in listing(self.out, "*.part") if OURS.fullmatch(path.stem)]  # others belong to the user
        for part in [*parts, *listing(self.folder, "*.part"), *listing(self._receipts, "*.part")]:
            part.unlink(missing_ok=True)

    def save_plan(self, write: Callable[[Path], None]) -> None:
        """Call `write` with a temporary path, then rename that file to the plan."""
        part = self.plan.with_suffix(".part")
        write(part)
        kill_point("plan.written")
        sync(part)
        _move(part, self.plan)
        kill_point("plan.saved")

    def receipts(self) -> dict[str, Receipt]:
        """Return the receipts of shards whose files are in place, by shard name."""
        receipts = {}
        for path in listing(self._receipts, "*.json"):
            try:
                receipt = Receipt.from_json(path.read_bytes())
            except (ValueError, KeyError, TypeError):
                continue
            if self._in_place(receipt):
                receipts[receipt.shard.name] = receipt
        return receipts

    def _in_place(self, receipt: Receipt) -> bool:
        shard = receipt.shard
        for name, size in ((shard.name, shard.bytes), (index_name(shard.name), shard.index_bytes)):
            path = self.file(name)
            if not path.is_file() or path.stat().st_size != size:
                return False
        return self.rows(shard.name).is_file()

    def why_missing(self, shard: str) -> str:
        """Return the reason why a shard is not in receipts()."""
        path = self._receipts / f"{shard}.json"
        try:
            Receipt.from_json(path.read_bytes())
        except FileNotFoundError:
            return "not built yet"
        except (ValueError, KeyError, TypeError):
            return "receipt damaged"
        return "files missing or of another size"

    def rows(self, shard: str) -> Path:
        """Return the ROWS file of a committed shard, see receipt.NotedRow."""
        return self.file(rows_file(Path(), shard))

    def file(self, name: str | Path) -> Path:
        """Return the path of a file by its name in OUT: in `out`, else in `base`."""
        own = self.out / name
        return own if self.base is None or own.is_file() else self.base / name

    def commit(self, receipt: Receipt) -> None:
        """Move a built shard into place, then write its receipt."""
        assert receipt.attempt is not None, "a saved receipt is already committed"
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
        """Delete the attempt folder of a shard."""
        if receipt.attempt is not None:
            shutil.rmtree(receipt.attempt, ignore_errors=True)

    def suspect(self, shard: str) -> str | None:
        """Return the key of the file that the last worker on `shard` was processing when it died."""
        attempts = sorted(listing(self.attempts, f"{shard}-*"), key=lambda path: path.stat().st_mtime_ns)
        with suppress(OSError, ValueError, IndexError):
            return _current(attempts[-1])[0]
        return None

    def timeouts(self, shard: str) -> Counter[str]:
        """Count, per key, how often a worker on `shard` exceeded the decode deadline."""
        keys: Counter[str] = Counter()
        for attempt in listing(self.attempts, f"{shard}-*"):
            with suppress(OSError, ValueError, IndexError):
                if (attempt / LATE).stat().st_size:
                    keys[_current(attempt)[0]] += 1
        return keys

    def under_way(self, shards: Set[str]) -> int:
        """Return the number of files that workers have processed so far in these shards."""
        done: Counter[str] = Counter()
        for attempt in listing(self.attempts, "*-*"):  # one listing: a cluster has hundreds on a slow file system
            shard = attempt.name.rpartition("-")[0]  # without the suffix of mkdtemp
            if shard in shards:
                with suppress(OSError, ValueError, IndexError):
                    done[shard] = max(done[shard], _current(attempt)[1])
        return done.total()

    # Notes: results of a build that require building shards again, saved for the next run.

    def notes(self, name: str) -> dict[str, Any]:
        """Return the notes `name`: `pages` (split -> page size), `excluded` (shard -> key -> reason, detail), or
        `fixed` (shard -> key -> size, time).
        """
        try:
            notes: dict[str, Any] = json.loads((self.folder / f"{name}.json").read_bytes())
            return notes
        except FileNotFoundError:
            return {}

    def add_notes(self, name: str, values: Mapping[str, object]) -> None:
        """Add `values` to the notes `name`."""
        write_whole(self.folder / f"{name}.json", json.dumps({**self.notes(name), **values}).encode())

    def exclude(self, shard: str, excluded: Excluded) -> None:
        """Exclude these files when `shard` is built again."""
        self.add_notes("excluded", {shard: self.notes("excluded").get(shard, {}) | excluded})
        kill_point("exclude.saved")

    def forget(self, shard: str, fixed: dict[str, tuple[int, int]]) -> None:
        """Schedule `shard` for a rebuild without exclusions, with the new sizes and times of `fixed` files."""
        self.add_notes("fixed", {shard: self.notes("fixed").get(shard, {}) | fixed})
        self.add_notes("excluded", {shard: {}})
        self.rebuild(shard)

    def rebuild(self, shard: str) -> None:
        """Schedule `shard` for a rebuild."""
        (self._receipts / f"{shard}.json").unlink(missing_ok=True)

    def start_from(self, base: "Workdir", fixed: dict[str, dict[str, tuple[int, int]]]) -> None:
        """Copy the job of the sealed dataset `base` and schedule the shards of `fixed` for a rebuild.

        The plan is copied last. Without a plan there is no job, so the next command starts again.
        """
        for path in (*listing(base._receipts, "*.json"), *(base.folder / name for name in (*NOTES, RUN_LOG))):
            if path.is_file():
                write_whole(self.folder / path.relative_to(base.folder), path.read_bytes())
        for shard, files in fixed.items():
            self.forget(shard, files)
        self.save_plan(lambda part: _copy(base.plan, part))

    def save_rejects(self, rejects: list[Reject]) -> Path:
        """List the rejected files of a job that is not sealed; return the path."""
        path = self.folder / REJECTS
        write_whole(path, json_lines(reject.to_dict() for reject in rejects))
        return path

    def save_row_digests(self, digests: Iterable[bytes]) -> RowDigestsFile:
        """Write the digests of all rows, in the order of splits, shards and rows."""
        saved = save_row_digests(self.out, digests)
        kill_point("seal.row_digests")
        return saved

    def seal(self, dataset: Dataset, rejects: list[Reject], duplicates: Iterable[Mapping[str, object]]) -> None:
        """Write the lists, then dataset.json. With dataset.json the dataset is complete."""
        write_whole(self.out / REJECTS, json_lines(reject.to_dict() for reject in rejects))
        (self.folder / REJECTS).unlink(missing_ok=True)
        kill_point("seal.rejects")
        write_whole(self.out / DUPLICATES, json_lines(duplicates))
        kill_point("seal.duplicates")
        self._sweep()  # before the manifest, since no job sweeps a complete folder
        shutil.rmtree(self.folder / UNPACKED, ignore_errors=True)
        write_whole(self.out / DATASET, dataset.to_json())
        kill_point("seal.manifest")

    def log(self, event: str, **values: object) -> None:
        """Append to the run log, the only file with clock, host and speed."""
        line = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "host": socket.gethostname(), "event": event} | values
        with self._log.open("a") as log:
            log.write(json.dumps(line) + "\n")


def _current(attempt: Path) -> tuple[str, int]:
    """Return the current key of a worker and the number of files it has processed."""
    key, done = json.loads((attempt / CURRENT).read_text().splitlines()[0])
    return key, done


def _copy(path: Path, part: Path) -> None:
    shutil.copyfile(path, part)


def rows_file(out: Path, shard: str) -> Path:
    """Return the path of a shard's ROWS file; a copied dataset may lack it."""
    return out / WORK / "receipts" / f"{shard}.{ROWS}"


def json_lines(values: Iterable[Mapping[str, object]]) -> bytes:
    """Return one JSON object per line, as bytes."""
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically. It is also complete after a power failure."""
    write_pieces(path, (data,))


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file atomically from pieces, without holding all of it in memory."""
    part = _part(path)
    with part.open("wb") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())
    _move(part, path)


def save_row_digests(out: Path, digests: Iterable[bytes]) -> RowDigestsFile:
    """Write the file of row digests and return its entry in dataset.json."""
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
    """Write a file named by the user: atomically and through links, or directly to a device or pipe."""
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
    """Rename a complete file and give it the group of the folder if permitted.

    The caller syncs the folder.
    """
    give_group(part, path.parent.stat().st_gid)
    os.replace(part, path)
