"""One job at a time in a folder, on one machine and, as far as it shares a clock, on a shared file system."""

import fcntl
import json
import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from dataprep.errors import DataprepError, TryLater

BEAT_S = 15.0
# A holder on another machine that has not touched its lock for so long is taken for dead.
STALE_S = 300.0


class Lock:
    """A lock file with the holder's host and process in it. Raises TryLater on entry when another job holds it.

    The kernel drops the lock of a process that ends, however it ends, so a killed or rebooted holder is in nobody's
    way. Some shared file systems keep such locks to one machine: there the holder's name and the file's age decide.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None
        self._released = threading.Event()

    def __enter__(self) -> "Lock":
        try:
            file = self._path.open("a+")
        except (PermissionError, FileNotFoundError, NotADirectoryError) as error:
            raise DataprepError(f"cannot write to {self._path.parent}: {error.strerror}") from None
        holder = _read(file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise _held(self._path, holder) from None
        except OSError:
            pass  # a file system without locks: the age of the file decides alone
        if (
            holder
            and holder.get("host") != socket.gethostname()
            and time.time() - os.stat(self._path).st_mtime < STALE_S
        ):
            file.close()
            raise _held(self._path, holder)
        _write(file, {"pid": os.getpid(), "host": socket.gethostname()})
        self._file = file
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()
        if self._file:
            # The kernel drops the lock whatever the disk says; the name in the file is only for other machines.
            with suppress(OSError):
                _write(self._file, {})
            with suppress(OSError):
                self._file.close()

    def _beat(self) -> None:
        while not self._released.wait(BEAT_S):
            with suppress(OSError):  # the disk is away for a moment; the next beat may be heard
                os.utime(self._path)


def running_holder(path: Path) -> str | None:
    """Who seems to hold the lock file at `path`, without touching the lock; None when no one does."""
    try:
        with path.open() as file:
            holder = _read(file)
            age_s = time.time() - os.fstat(file.fileno()).st_mtime
    except OSError:
        return None
    if not holder:
        return None
    here = holder["host"] == socket.gethostname()
    return _name(holder) if (Path(f"/proc/{holder['pid']}").exists() if here else age_s < STALE_S) else None


def _name(holder: dict[str, Any]) -> str:
    return f"process {holder['pid']} on {holder['host']}"


def _held(path: Path, holder: dict[str, Any]) -> TryLater:
    who = _name(holder) if holder else "another job"
    return TryLater(f"{path.parent.parent} is being written by {who}; wait for it to end, or stop it")


def _read(file: IO[str]) -> dict[str, Any]:
    file.seek(0)
    try:
        holder = json.loads(file.read(4096) or "{}")
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) and {"pid", "host"} <= set(holder) else {}


def _write(file: IO[str], holder: dict[str, Any]) -> None:
    file.truncate(0)
    file.write(json.dumps(holder) + "\n" if holder else "")
    file.flush()
