"""Copy rejected files to the --quarantine folder. A failed copy does not stop the job."""

import errno
import os
import queue
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from dataprep.items import NotCopied, Reject, encode_name, key_to_path, source_path
from schemas.process.memory import demand_threads, is_shortage

MAX_STALLS = 3  # unresponsive files after which no other is tried: each costs the deadline
PIECE_BYTES = 1 << 20
# Errors of the whole folder, which stop the job until the user fixes them. All others concern one file.
_OF_FOLDER = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM})


class _Copy(NamedTuple):
    """One copy: source, target, and a temporary file beside the target."""

    origin: str | bytes
    target: bytes
    part: bytes


class _Failed(Exception):
    """A file cannot be copied. The message gives the reason."""


def copy_rejected(source: str, folder: Path, rejects: list[Reject], deadline_s: float) -> NotCopied:
    """Copy rejected regular files to folder/<reason>/<key>. Return the files that could not be copied.

    `source` is SOURCE as returned by portable_path. A copy that makes no progress for `deadline_s` seconds is
    abandoned. Raises OSError if the folder cannot be used.
    """
    failed: NotCopied = {}
    stalls = 0
    root = os.fsencode(folder)
    copier = _Copier()
    try:
        for number, reject in enumerate(rejects):
            if stalls == MAX_STALLS:
                failed[reject.key] = f"not tried, because {MAX_STALLS} other files did not respond"
                continue
            reason = reject.reason.encode()
            target = os.path.join(root, reason, encode_name(key_to_path(reject.key)))
            part = os.path.join(root, reason, f".{os.getpid()}-{number}.part".encode())
            try:
                copier.copy(_Copy(source_path(source, reject.key), target, part), deadline_s)
            except _Failed as error:
                failed[reject.key] = str(error)
            except queue.Empty:
                failed[reject.key] = f"no response within {deadline_s:g} s"
                stalls += 1
                copier.abandon()
                copier = _Copier()
    finally:
        copier.abandon()
    return failed


class _Copier:
    """A thread that copies files. A read from a hanging mount blocks and cannot be interrupted."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[_Copy | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._abandoned = threading.Event()
        demand_threads(1)
        threading.Thread(target=self._serve, daemon=True).start()

    def copy(self, wanted: _Copy, deadline_s: float) -> None:
        """Copy one file.

        Raises _Failed if the file cannot be copied, OSError if the folder cannot be used, and queue.Empty after
        `deadline_s` seconds without progress.
        """
        self._asked.put(wanted)
        while (answer := self._answers.get(timeout=deadline_s)) is not True:
            if isinstance(answer, BaseException):
                raise answer

    def abandon(self) -> None:
        """Stop using the thread. If the thread continues later, it discards its current copy."""
        self._abandoned.set()
        self._asked.put(None)

    def _serve(self) -> None:
        while wanted := self._asked.get():
            try:
                _copy(wanted, self._moved)
                self._answers.put(True)
            except BaseException as error:
                self._answers.put(error)

    def _moved(self) -> None:
        if self._abandoned.is_set():
            raise _Failed("abandoned")
        self._answers.put(False)


def _copy(wanted: _Copy, moved: Callable[[], None]) -> None:
    """Copy a regular file. `moved` is called for each piece.

    Raises _Failed if the file cannot be copied, OSError if the folder cannot be used.
    """
    with _open(wanted.origin) as file:
        piece = read_piece(file)  # before writing: an unreadable file leaves no trace
        try:
            os.makedirs(os.path.dirname(wanted.target), exist_ok=True)
            with open(wanted.part, "wb") as part:
                while piece:
                    part.write(piece)
                    moved()
                    piece = read_piece(file)
            moved()
            os.replace(wanted.part, wanted.target)  # an earlier copy remains until this one is complete
        except BaseException as error:
            with suppress(OSError):
                os.unlink(wanted.part)
            if isinstance(error, OSError) and error.errno not in _OF_FOLDER and not is_shortage(error):
                raise _Failed(f"cannot be written: {error.strerror}") from None
            raise


def _open(origin: str | bytes) -> BinaryIO:
    try:
        # Without O_NONBLOCK, opening a FIFO would block.
        descriptor = os.open(origin, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(error) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _Failed("not a regular file")
    return open(descriptor, "rb")


def read_piece(file: BinaryIO) -> bytes:
    """Return the next bytes of a file. Raises _Failed if they cannot be read."""
    try:
        return file.read(PIECE_BYTES)
    except OSError as error:
        raise _unreadable(error) from None


def _unreadable(error: OSError) -> Exception:
    """Return _Failed for an unreadable file. If memory is short, return `error` itself."""
    return error if is_shortage(error) else _Failed(f"cannot be read: {error.strerror}")
