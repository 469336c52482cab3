"""Copy rejected files to the --quarantine folder. A failed copy does not stop the job."""

import errno
import io
import os
import queue
import stat
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from dataprep.build.read_ahead import read_item
from dataprep.items import ByteRange, NotCopied, Place, Reject, encode_name, item_path, key_to_path
from dataprep.plan.store import PlannedItem
from dataprep.storage.remote import is_remote
from schemas.images.policy import ImageRejected
from schemas.process.memory import demand_threads, is_shortage

MAX_STALLS = 3  # unresponsive files after which no other is tried: each costs the deadline
PIECE_BYTES = 1 << 20
# Errors of the whole folder, which stop the job until the user fixes them. All others concern one file.
_OF_FOLDER = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM})


class _Copy(NamedTuple):
    """One copy: file or container, target, a temporary file beside the target, and the item in a container."""

    origin: str | bytes
    target: bytes
    part: bytes
    inside: PlannedItem | None = None


class _Failed(Exception):
    """A file cannot be copied. The message gives the reason."""


def copy_rejected(
    base: str, folder: Path, rejects: list[Reject], planned: Mapping[str, PlannedItem], deadline_s: float
) -> NotCopied:
    """Copy rejected images to folder/<reason>/<key>. Return those that could not be copied.

    `base` is the folder of SOURCE. `planned` has the rejected items that are not files at their keys. A copy that makes
    no progress for `deadline_s` seconds is abandoned. Raises OSError if the folder cannot be used.
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
            target = os.path.join(root, reason, _inside(encode_name(key_to_path(reject.key))))
            part = os.path.join(root, reason, f".{os.getpid()}-{number}.part".encode())
            try:
                item = planned.get(reject.key)
                place: Place = item.place if item else None
                inside = item if isinstance(place, ByteRange) or is_remote(base) else None
                copier.copy(_Copy(item_path(base, reject.key, place), target, part, inside), deadline_s)
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


def _inside(path: bytes) -> bytes:
    """Return a relative path that cannot leave its folder: names in archives and tables may have `..`."""
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    return b"/".join(b"__" if part == b".." else part for part in parts)


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
    with _open(wanted) as file:
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


def _open(wanted: _Copy) -> BinaryIO:
    if wanted.inside is not None:
        try:
            return io.BytesIO(read_item(wanted.origin, wanted.inside, sys.maxsize))
        except ImageRejected as error:
            raise _Failed(error.detail) from None
    origin = wanted.origin
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
