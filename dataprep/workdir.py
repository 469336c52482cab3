"""Crash safety in one place: the lock, the saved plan, attempts, receipts, commit and seal.

A file gets its final name whole and synced, or not at all. The receipt of a shard is written after its files are in
place, and dataset.json after everything: what lies on disk after a kill at any point is told apart from what is done.
"""

import fcntl
import json
import os
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from dataprep.errors import DataprepError, TryLater
from dataprep.item import Reject
from dataprep.receipt import Receipt
from schemas.dataset import Dataset
from schemas.layout import DATASET, REJECTS, WORK, index_name


class Workdir:
    """OUT and OUT/.work, held by one job at a time. Enter it to take the lock; raises TryLater when it is held."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.folder = out / WORK
        self.plan = self.folder / "plan.sqlite"
        self.attempts = self.folder / "attempts"
        self._receipts = self.folder / "receipts"
        self._pages = self.folder / "pages.json"
        self._log = self.folder / "run.jsonl"
        self._lock: IO[str] | None = None

    def __enter__(self) -> "Workdir":
        try:
            self._receipts.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / "lock").open("a+")
        except OSError as error:
            raise DataprepError(f"cannot write to OUT {self.out}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.seek(0)
            holder = self._lock.read().strip() or "another process"
            self._lock.close()
            raise TryLater(f"{self.out} is being written by {holder}; wait for it to end, or stop it") from None
        self._lock.truncate(0)
        self._lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        self._lock.flush()
        shutil.rmtree(self.attempts, ignore_errors=True)
        self.attempts.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.attempts, ignore_errors=True)
        if self._lock:
            self._lock.close()

    def save_plan(self, write: Callable[[Path], None]) -> None:
        """Let `write` make the plan's file, and give it its name when it is whole."""
        part = self.plan.with_suffix(".part")
        part.unlink(missing_ok=True)
        write(part)
        _sync(part)
        _move(part, self.plan)

    def receipts(self) -> dict[str, Receipt]:
        """Receipts of the shards whose files are in place, by shard name."""
        found = {}
        for path in sorted(self._receipts.glob("*.json")):
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
            path = self.out / name
            if not path.is_file() or path.stat().st_size != size:
                return False
        return True

    def commit(self, receipt: Receipt) -> None:
        """Move a built shard into place, then write its receipt."""
        assert receipt.attempt is not None, "a kept receipt was committed before"
        name = receipt.shard.name
        for file in (name, index_name(name)):
            _move(receipt.attempt / file, self.out / file)
        write_whole(self._receipts / f"{name}.json", receipt.to_json())
        shutil.rmtree(receipt.attempt, ignore_errors=True)

    def page_sizes(self) -> dict[str, int]:
        """Page sizes of the splits whose planned pages turned out too small."""
        try:
            sizes: dict[str, int] = json.loads(self._pages.read_bytes())
            return sizes
        except FileNotFoundError:
            return {}

    def save_page_size(self, split: str, page_size: int) -> None:
        """Remember that a split needs larger pages."""
        write_whole(self._pages, json.dumps(self.page_sizes() | {split: page_size}).encode())

    def save_rejects(self, rejects: list[Reject]) -> Path:
        """List what a job refused that is not sealed, for the person who must decide; the file's path."""
        path = self.folder / REJECTS
        write_whole(path, _lines(rejects))
        return path

    def seal(self, dataset: Dataset, rejects: list[Reject]) -> None:
        """Write rejects.jsonl and then dataset.json: the set is complete when the latter is there."""
        write_whole(self.out / REJECTS, _lines(rejects))
        (self.folder / REJECTS).unlink(missing_ok=True)
        write_whole(self.out / DATASET, dataset.to_json())

    def log(self, event: str, **values: Any) -> None:
        """Append to the run log: the place for clock, host and speed, which no other file holds."""
        line = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "host": socket.gethostname(), "event": event} | values
        with self._log.open("a") as log:
            log.write(json.dumps(line) + "\n")


def _lines(rejects: list[Reject]) -> bytes:
    return "".join(json.dumps({"key": r.key, "reason": r.reason, "detail": r.detail}) + "\n" for r in rejects).encode()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is there whole or not at all, also after a power cut."""
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    _move(part, path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _move(part: Path, path: Path) -> None:
    os.replace(part, path)
    _sync(path.parent)
