"""Copies refused files aside, for the person who will look at them. A job is sealed whether or not that succeeds."""

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

MAX_STALLS = 3  # after so many files that do not answer, the others are not tried: each costs the deadline
PIECE_BYTES = 1 << 20
# Errors of the whole folder, which the user can fix before the same command goes on. All others concern one file.
_OF_FOLDER = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM})


class _Copy(NamedTuple):
    """One copy: from where to where, and the file to write first, which no other copy of this command has."""

    origin: str | bytes
    target: bytes
    part: bytes


class _Failed(Exception):
    """A file cannot be copied; the text says why."""


def copy_refused(source: str, folder: Path, rejects: list[Reject], deadline_s: float) -> NotCopied:
    """Copy the regular files among the rejects to `folder`, each under its reason and path relative to `source`,
    which is SOURCE as portable_path gives it. Returns those that could not be copied.

    A file of which nothing can be read or written for `deadline_s` seconds is given up. Raises OSError for what is
    wrong with the whole folder.
    """
    failed: NotCopied = {}
    stalls = 0
    root = os.fsencode(folder)
    copier = _Copier()
    try:
        for number, reject in enumerate(rejects):
            if stalls == MAX_STALLS:
                failed[reject.key] = f"not tried, since {MAX_STALLS} other files did not answer"
                continue
            reason = reject.reason.encode()
            target = os.path.join(root, reason, encode_name(key_to_path(reject.key)))
            part = os.path.join(root, reason, f".{os.getpid()}-{number}.part".encode())
            try:
                copier.copy(_Copy(source_path(source, reject.key), target, part), deadline_s)
            except _Failed as error:
                failed[reject.key] = str(error)
            except queue.Empty:
                failed[reject.key] = f"it did not answer within {deadline_s:g} s"
                stalls += 1
                copier.abandon()
                copier = _Copier()
    finally:
        copier.abandon()
    return failed


class _Copier:
    """A thread that copies: a mount that hangs holds whoever asks it, and cannot be interrupted."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[_Copy | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._abandoned = threading.Event()
        demand_threads(1)
        threading.Thread(target=self._serve, daemon=True).start()

    def copy(self, wanted: _Copy, deadline_s: float) -> None:
        """Copy one file. Raises _Failed, OSError, and queue.Empty where nothing moves for `deadline_s` seconds."""
        self._asked.put(wanted)
        while (answer := self._answers.get(timeout=deadline_s)) is not True:
            if isinstance(answer, BaseException):
                raise answer

    def abandon(self) -> None:
        """Leave the thread behind. What it is at, should it ever go on, is given up."""
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
            raise _Failed("given up")
        self._answers.put(False)


def _copy(wanted: _Copy, moved: Callable[[], None]) -> None:
    """Copy a regular file; `moved` is called for each piece. Raises _Failed, and OSError for what is of the folder."""
    with _open(wanted.origin) as file:
        piece = read_piece(file)  # before anything is written: a file that cannot be read leaves no trace
        try:
            os.makedirs(os.path.dirname(wanted.target), exist_ok=True)
            with open(wanted.part, "wb") as part:
                while piece:
                    part.write(piece)
                    moved()
                    piece = read_piece(file)
            moved()
            os.replace(wanted.part, wanted.target)  # what an earlier job has copied stays until this is whole
        except BaseException as error:
            with suppress(OSError):
                os.unlink(wanted.part)
            if isinstance(error, OSError) and error.errno not in _OF_FOLDER and not is_shortage(error):
                raise _Failed(f"it cannot be written: {error.strerror}") from None
            raise


def _open(origin: str | bytes) -> BinaryIO:
    try:
        # Without O_NONBLOCK a FIFO would block for ever.
        descriptor = os.open(origin, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(error) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _Failed("it is not a regular file")
    return open(descriptor, "rb")


def read_piece(file: BinaryIO) -> bytes:
    """The next bytes of a file that is copied; raises _Failed where they cannot be read."""
    try:
        return file.read(PIECE_BYTES)
    except OSError as error:
        raise _unreadable(error) from None


def _unreadable(error: OSError) -> Exception:
    """Why a file is not copied, unless it is the machine that lacks memory."""
    return error if is_shortage(error) else _Failed(f"it cannot be read: {error.strerror}")
