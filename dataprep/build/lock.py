"""Lock file that allows one job at a time per folder.

It also works between machines that share a file system and have similar clocks.
"""

import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from dataprep.errors import DataprepError, TryLater

BEAT_S = 15.0
# A holder on another machine counts as dead if its lock file is older than this.
STALE_S = 300.0


class Lock:
    """A lock file with the host and process of its holder. Raises TryLater on entry if another job holds it.

    The kernel releases the lock when the process ends, even by a kill. On shared file systems where such locks are
    local to one machine, the holder's host and the age of the file decide.
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
            pass  # a file system without locks: only the age of the file decides
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
            # Closing releases the lock even if the disk fails; the file's content is only for other machines.
            with suppress(OSError):
                _write(self._file, {})
            with suppress(OSError):
                self._file.close()

    def _beat(self) -> None:
        while not self._released.wait(BEAT_S):
            with suppress(OSError):  # the disk may be back at the next beat
                os.utime(self._path)


def running_holder(path: Path) -> str | None:
    """Return the apparent holder of the lock file at `path`; None if there is none. The lock is not taken."""
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


def _name(holder: Mapping[str, object]) -> str:
    return f"process {holder['pid']} on {holder['host']}"


def _held(path: Path, holder: Mapping[str, object]) -> TryLater:
    job = _name(holder) if holder else "another job"
    return TryLater(f"{path.parent.parent} is being written by {job}; wait for it to end, or stop it")


def _read(file: IO[str]) -> dict[str, object]:
    file.seek(0)
    try:
        holder = json.loads(file.read(4096) or "{}")
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) and {"pid", "host"} <= set(holder) else {}


def _write(file: IO[str], holder: Mapping[str, object]) -> None:
    file.truncate(0)
    file.write(json.dumps(holder) + "\n" if holder else "")
    file.flush()
