"""Runs a command in which one call to the file system fails, or before which the process is killed.

Used so: build the library, `trace` the command once for its points, then `run` it with a fault at one of them, on a
fresh copy of what it works on. What must hold afterwards is the caller's: see `complaints` for what always must.
"""

import errno
import os
import shutil
import signal
import struct
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

LIBRARY = Path(__file__).parent / "faults.c"
STATE = struct.Struct("=QQ")  # struct state of faults.c
ERRORS = ("EIO", "ENOSPC", "EACCES", "EINTR", "EMFILE", "ENOENT", "ESTALE")
EXITS = frozenset({0, 1, 2, 3, 75, 130, 143})
BYTES = frozenset({"read", "write", "pread", "pwrite"})  # the calls that can be short


class NoCompiler(Exception):
    """No C compiler is on PATH, or it makes no shared library."""


@dataclass(frozen=True)
class Point:
    """One call of the undisturbed command; `path` is relative to the root below which calls count."""

    number: int
    process: int
    call: str
    path: str


@dataclass(frozen=True)
class Fault:
    """What happens at a point: the name of an errno, "short" or "kill"; to all later calls too where it `lasts`."""

    what: str
    lasts: bool = False

    def fits(self, point: Point) -> bool:
        """Whether it would change anything there."""
        return self.what != "short" or point.call in BYTES

    def __str__(self) -> str:
        return self.what + ("+" if self.lasts else "")


@dataclass(frozen=True)
class Ended:
    """How a command ended; `failed` calls of it were disturbed, `left` says that it left processes behind."""

    code: int
    out: str
    err: str
    failed: int
    calls: int
    left: bool = False


@dataclass
class Faults:
    """The library, built, and a folder of its own for what is counted and printed."""

    folder: Path
    launch: "Callable[[Sequence[str], dict[str, str], float], Ended] | None" = None  # run_plainly, or a Server's
    library: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.library = self.folder / "faults.so"
        if not self.library.exists():
            build(self.library)

    def trace(self, command: Sequence[str], root: Path, env: dict[str, str] | None = None) -> tuple[Ended, list[Point]]:
        """Run it undisturbed; the calls below `root` in their order."""
        log = self.folder / "calls"
        log.unlink(missing_ok=True)
        ended = self._run(command, root, {"FAULT_LOG": str(log), **(env or {})}, 600.0)
        lines = log.read_text(errors="surrogateescape").splitlines() if log.exists() else []
        points = [_point(line) for line in lines]
        return ended, sorted(points, key=lambda point: point.number)

    def run(
        self,
        command: Sequence[str],
        root: Path,
        fault: Fault,
        number: int,
        env: dict[str, str] | None = None,
        timeout: float = 300.0,
    ) -> Ended:
        """Run it with this fault at the call of this number."""
        wanted = fault.what if fault.what in ("short", "kill") else str(getattr(errno, fault.what))
        how = {"FAULT_AT": str(number), "FAULT_ERROR": wanted, "FAULT_COUNT": "0" if fault.lasts else "1"}
        return self._run(command, root, {**how, **(env or {})}, timeout)

    def _run(self, command: Sequence[str], root: Path, env: dict[str, str], timeout: float) -> Ended:
        state = self.folder / "state"
        state.write_bytes(STATE.pack(0, 0))
        shared = {"LD_PRELOAD": str(self.library), "FAULT_ROOT": str(root), "FAULT_STATE": str(state)}
        ended = (self.launch or run_plainly)(command, {**shared, **env}, timeout)
        calls, failed = STATE.unpack(state.read_bytes())
        return Ended(ended.code, ended.out, ended.err, failed, calls, ended.left)


def run_plainly(command: Sequence[str], env: dict[str, str] | None = None, timeout: float = 300.0) -> Ended:
    """Run it without faults. Output goes to files: a pipe would wait for processes that a killed command left."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        with suppress(subprocess.TimeoutExpired):
            started.wait(timeout)
        code = started.returncode  # None: it hangs
        left = end_group(started.pid, wait_s=10.0 if code is not None else 0.0) and code is not None
        started.wait()
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
    return Ended(-signal.SIGALRM if code is None else code, texts[0], texts[1], 0, 0, left)


def complaints(ended: Ended) -> list[str]:
    """What no fault excuses: a traceback, an exit code that is not documented, a command without end."""
    found = []
    if ended.code == -signal.SIGALRM:
        found.append("hangs")
    elif ended.code not in EXITS and ended.code != -signal.SIGKILL:
        found.append(f"exit {ended.code}")
    if "Traceback (most recent call last)" in ended.err:
        found.append("traceback")
    if ended.code in (1, 75) and not (ended.err + ended.out).strip():
        found.append("says nothing")
    if ended.left:
        found.append("leaves processes")
    return found


def copy(template: Path, to: Path) -> None:
    """A fresh copy of a folder in place of whatever is there, times included; no folder where there is none."""
    shutil.rmtree(to, ignore_errors=True)
    if template.exists():
        shutil.copytree(template, to, symlinks=True)


def build(library: Path) -> None:
    compiler = shutil.which("cc")
    if not compiler:
        raise NoCompiler("no C compiler (cc) is on PATH")
    part = library.with_suffix(f".{os.getpid()}")
    command = [compiler, "-std=gnu11", "-O1", "-shared", "-fPIC", "-o", str(part), str(LIBRARY), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise NoCompiler(f"cc cannot build it: {done.stderr.strip()}")
    part.replace(library)


def _point(line: str) -> Point:
    number, process, call, path = line.split(" ", 3)
    return Point(int(number), int(process), call, path)


def end_group(group: int, wait_s: float) -> bool:
    """Whether processes of this group are still there after so long; they are ended."""
    turns = int(wait_s / 0.05)
    for _ in range(turns):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        signal.sigtimedwait([], 0.05)
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
        return True
    return False
