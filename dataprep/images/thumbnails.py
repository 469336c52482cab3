"""Make thumbnails in child processes. A file that crashes or hangs a decoder does not affect other files."""

import base64
import io
import multiprocessing
import os
import signal
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NamedTuple, TypeVar

from PIL import Image

from dataprep.errors import DataprepError
from dataprep.images.check import keep_decoders_single, preview_image
from schemas.images.policy import ImageRejected
from schemas.process.host import usable_cores

MAX_PIXELS = 64_000_000
MAX_BYTES = 64 << 20
DEADLINE_S = 10.0
START_S = 120.0
READY = "ready"
CHILDREN = 4
QUALITIES = (82, 70, 55, 40, 25)
# Number of pictures, and the longer side of each in pixels, in order of preference.
SHEETS = (
    (16, 224), (12, 224), (12, 192), (10, 160), (8, 160), (8, 128), (6, 128), (6, 96), (4, 96), (3, 96), (3, 72),
    (2, 72), (1, 72), (1, 48),
)  # fmt: skip

_Tag = TypeVar("_Tag")


class Sheet(NamedTuple):
    """Limits of a contact sheet: number of pictures, longer side of each in pixels, bytes of each."""

    pictures: int
    side: int
    picture_bytes: int


class File(NamedTuple):
    """An image file: its path and its size in bytes. It is skipped if it has changed or is not regular."""

    path: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A JPEG and its size in pixels."""

    data: bytes
    width: int
    height: int

    @property
    def base64(self) -> str:
        """The JPEG in base64."""
        return base64.b64encode(self.data).decode()

    @property
    def uri(self) -> str:
        """The JPEG as a data URI."""
        return f"data:image/jpeg;base64,{self.base64}"


def choose_sheet(sheets: int, budget_bytes: int, most: int = 16) -> Sheet:
    """Return the largest sheet such that `sheets` of them fit into `budget_bytes`.

    Returns the smallest sheet if none fits.
    """
    for pictures, side in SHEETS:
        sheet = Sheet(min(pictures, most), side, side * side // 4 + 500)
        if sheet.pictures * sheet.picture_bytes * sheets <= budget_bytes:
            break
    return sheet


class Thumbnailer:
    """Context manager that makes thumbnails in child processes.

    The children run `serve` and end on exit.
    """

    def __init__(self, deadline_s: float = DEADLINE_S, serve: Callable[[Connection], None] | None = None) -> None:
        self._children = [_Child(deadline_s, serve or _serve) for _ in range(min(CHILDREN, usable_cores()))]

    def __enter__(self) -> "Thumbnailer":
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            child.end()

    def make(
        self, wanted: Iterable[tuple[_Tag, bytes | File]], sheet: Sheet
    ) -> Iterator[tuple[_Tag, Thumbnail | None]]:
        """Yield a thumbnail of each picture, in order and with its tag.

        Yields None for a picture that does not decode in time.
        """
        idle, busy = deque(self._children), deque[tuple[_Tag, _Child]]()
        for tag, picture in wanted:
            if not idle:
                yield _answer(busy, idle)
            child = idle.popleft()
            child.ask(picture, sheet)
            busy.append((tag, child))
        while busy:
            yield _answer(busy, idle)


def _answer(busy: "deque[tuple[_Tag, _Child]]", idle: "deque[_Child]") -> tuple[_Tag, Thumbnail | None]:
    tag, child = busy.popleft()
    idle.append(child)
    return tag, child.answer()


class _Child:
    """A child process that makes thumbnails one by one; it is replaced if it dies or hangs."""

    def __init__(self, deadline_s: float, serve: Callable[[Connection], None]) -> None:
        self._deadline_s = deadline_s
        self._serve = serve
        self._start()

    def _start(self) -> None:
        spawn = multiprocessing.get_context("spawn")  # inherits no lock, thread or handle of this process
        self._pipe, end = spawn.Pipe()
        self._process = spawn.Process(target=_run, args=(end, self._serve), daemon=True)
        self._process.start()
        end.close()
        self._ready = False

    def ask(self, picture: bytes | File, sheet: Sheet) -> None:
        if not self._ready:
            self._expect_ready()
        with suppress(OSError):  # the child has died; answer() handles that
            self._pipe.send((picture, sheet))

    def _expect_ready(self) -> None:
        with suppress(EOFError, OSError):
            self._ready = self._pipe.poll(START_S) and self._pipe.recv() == READY
        if not self._ready:
            raise DataprepError("cannot start a process for thumbnails; the usual cause is too little memory")

    def answer(self) -> Thumbnail | None:
        try:
            if self._pipe.poll(self._deadline_s):
                result: Thumbnail | None = self._pipe.recv()
                return result
        except (EOFError, OSError):
            pass
        self.end()
        self._start()
        return None

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _run(pipe: Connection, serve: Callable[[Connection], None]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends its children
    pipe.send(READY)
    with suppress(EOFError):  # the parent has ended
        serve(pipe)


def _serve(pipe: Connection) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libtiff and others print there
    keep_decoders_single()
    while True:
        pipe.send(thumbnail(*pipe.recv()))


def thumbnail(picture: bytes | File, sheet: Sheet) -> Thumbnail | None:
    """Return a thumbnail within the limits of `sheet`; None if nothing is visible. It may be slow or crash."""
    data = picture if isinstance(picture, bytes) else _read(picture)
    try:
        image = preview_image(data, sheet.side, MAX_PIXELS) if data else None
    except ImageRejected:
        return None
    if image is not None and isinstance(picture, File) and _is_flat(image):
        return None  # one colour: no pixels were decoded
    while image is not None:
        for quality in QUALITIES:
            buffer = io.BytesIO()
            image.info = {}  # or a profile, comment or EXIF would be copied
            image.save(buffer, "JPEG", quality=quality, optimize=True)
            if buffer.tell() <= sheet.picture_bytes:
                return Thumbnail(buffer.getvalue(), *image.size)
        if max(image.size) < 8:
            return None
        image.thumbnail((max(image.size) * 2 // 3,) * 2)
    return None


def _is_flat(image: Image.Image) -> bool:
    return all(low == high for low, high in (channel.getextrema() for channel in image.split()))


def _read(file: File) -> bytes:
    """Return the bytes of a file. They are empty if the file has changed, is missing or is too large."""
    try:
        descriptor = os.open(file.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return b""
    with open(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != file.size or status.st_size > MAX_BYTES:
            return b""
        try:
            return opened.read()
        except OSError:
            return b""
