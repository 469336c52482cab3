"""Run a command as a separate process and measure all of it, with start-up and children."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
POLL_S = 0.02
MIB = 1 << 20


class RunFailed(Exception):
    """A command failed or took too long."""


@dataclass(frozen=True)
class Run:
    """One measured run. CPU counts user and system time of all processes, `peak_mb` is the largest single process.

    `told` is what the command itself reported. `workers_mb` are the peaks of its child processes, if they were watched.
    """

    wall_s: float
    cpu_s: float
    peak_mb: float
    told: dict[str, float] = field(default_factory=dict)
    workers_mb: tuple[float, ...] = ()

    def figures(self) -> dict[str, float]:
        """Return all figures by name. `work` excludes the start-up that the command reported."""
        found = {"wall_s": self.wall_s, "cpu_s": self.cpu_s, "peak_mb": self.peak_mb, **self.told}
        if "startup_s" in found:
            found["work_s"] = self.wall_s - found["startup_s"]
            found["work_cpu_s"] = self.cpu_s - found["startup_cpu_s"]
        if self.workers_mb:
            found["worker_mb"] = max(self.workers_mb)
        return found


def run(command: Sequence[str], timeout_s: float, watch: bool = False) -> Run:
    """Run and measure a command; raise RunFailed if it fails. `watch` polls the peaks of its child processes.

    If its last line on stdout is a JSON object of numbers, these are figures too. It runs in a scratch folder, since
    MindSpore leaves files in the working directory.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryDirectory() as scratch:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "GLOG_v": "4", "PYTHONWARNINGS": "ignore"}
        started = time.perf_counter()
        # In its own session, so that all processes of the command can be stopped.
        child = subprocess.Popen(command, cwd=scratch, env=env, stdout=out, stderr=err, start_new_session=True)
        late = threading.Event()
        timer = threading.Timer(timeout_s, _end_late, (child.pid, late))
        timer.start()
        watcher = Watcher(child.pid) if watch else None
        try:
            _, status, usage = os.wait4(child.pid, 0)
            wall = time.perf_counter() - started
        finally:
            timer.cancel()
            _end(child.pid)  # what it has left running, or all of it when the runner itself is interrupted
            workers = watcher.finish() if watcher else ()
        child.returncode = os.waitstatus_to_exitcode(status)  # Popen must not wait for what has been waited for
        if late.is_set():
            raise RunFailed(f"was not done after {timeout_s:.0f} s")
        if child.returncode:
            raise RunFailed(f"failed with {child.returncode}: {_last_line(err)}")
        # Linux hands a new process the peak of the one that started it, so the runner itself must stay small.
        return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / MIB, _told(out), workers)


def module(name: str, *arguments: object) -> list[str]:
    """Return the command that runs a module with this Python."""
    return [sys.executable, "-m", name, *map(str, arguments)]


def _end_late(session: int, late: threading.Event) -> None:
    late.set()
    _end(session)


def _end(session: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(session, signal.SIGKILL)


def _last_line(file: IO[bytes]) -> str:
    file.seek(0)
    lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "no output"


def _told(file: IO[bytes]) -> dict[str, float]:
    try:
        told = json.loads(_last_line(file))
    except ValueError:
        return {}
    is_figures = isinstance(told, dict) and all(isinstance(value, (int, float)) for value in told.values())
    return told if is_figures else {}


class Watcher(threading.Thread):
    """Poll the peak resident memory of the children of a process, until finish()."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._peaks: dict[int, float] = {}
        self._done = threading.Event()
        self.start()

    def run(self) -> None:
        """Poll; shorter-lived processes are missed."""
        while not self._done.wait(POLL_S):
            for child in _descendants(self._pid):
                with suppress(OSError, StopIteration):
                    lines = Path(f"/proc/{child}/status").read_text().splitlines()
                    peak = next(line for line in lines if line.startswith("VmHWM"))
                    self._peaks[child] = int(peak.split()[1]) * 1024 / MIB

    def finish(self) -> tuple[float, ...]:
        """Stop polling and return the peaks in MiB."""
        self._done.set()
        self.join()
        return tuple(self._peaks.values())


def _descendants(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from _descendants(int(child))
