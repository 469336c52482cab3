"""Watches the ranks of a host: which of them has ended, died, or holds up the others."""

import contextlib
import os
import re
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainer.device import rank
from trainer.device.heartbeat import COMPILING, STARTING, Heartbeat, read_beat
from trainer.errors import Busy, TrainerError

LAST_LINES = 12
GRACE_S = 2.5  # for rank 0 to report an error that another rank has noticed first
COMPILE_S = 1800.0  # least limit while a rank compiles
AGAIN = "all ranks were stopped; the same command resumes from the last checkpoint"
LOG_S = 10.0  # for msrun, which looks once a second, to log an exit code
# Signals of a defect in a program: a second try would end alike.
DEFECTS = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS)


@dataclass(frozen=True)
class RankState:
    """One rank as its host sees it. `process` is the state letter of /proc, empty if the process is gone.

    `ended` is True if it ended by itself, for example because it gave up waiting.
    """

    number: int
    host: str
    process: str
    beat: Heartbeat | None
    ended: bool = False

    @property
    def lag(self) -> tuple[bool, tuple[int, int]]:
        """The sort key for the rank that holds up the others: one that does not run, else the one furthest behind."""
        runs = self.ended or self.process not in ("", "T")
        return runs, (0, 0) if self.beat is None else self.beat.place

    def __str__(self) -> str:
        name = f"rank {self.number} on {self.host}"
        if self.beat is None:
            return f"{name} has not begun"
        gone = ", ended" if self.ended else ", dead"
        stopped = {"": gone, "T": ", stopped by a signal", "D": ", waiting for a disk"}.get(self.process, "")
        spent = self.beat.wait_s + self.beat.work_s
        wait = f", data wait {self.beat.wait_s / spent:.0%}" if spent else ""
        return f"{name}: {self.beat.phase}, step {self.beat.step}{stopped}{wait}"


def slowest(states: Sequence[RankState]) -> str:
    """Return a phrase that names the rank that holds up the others, if one does, and then the state of each rank."""
    ordered = sorted(states, key=lambda state: state.lag)
    each = "; ".join(map(str, sorted(states, key=lambda state: state.number)))
    if len(ordered) < 2 or ordered[0].lag == ordered[-1].lag:
        return f"no rank is behind the others ({each})"
    return f"rank {ordered[0].number} on {ordered[0].host} holds up the others ({each})"


class RankWatch:
    """Watches the ranks `numbers`, whose notes and beats are in `folder`. `limit_s` is --rank-timeout in seconds."""

    def __init__(self, folder: Path, numbers: range, limit_s: float) -> None:
        self.folder = folder
        self.numbers = numbers
        self.limit_s = limit_s
        self.host = socket.gethostname()

    def note(self, kind: str, number: int) -> str | None:
        """Return what rank `number` has noted, None if it has not."""
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / f"{kind}_{number}").read_text()
        return None

    def pids(self) -> list[int]:
        """Return the process numbers of the ranks that have started."""
        return [int(pid) for number in self.numbers if (pid := self.note("pid", number)) is not None]

    def ends(self) -> dict[int, int]:
        """Return the exit codes of the ranks that have ended."""
        return {number: int(end) for number in self.numbers if (end := self.note("end", number)) is not None}

    def wait_for_ends(self, limit_s: float) -> None:
        """Wait until all ranks are gone, at most `limit_s` seconds."""
        deadline = time.monotonic() + limit_s
        while any(process_state(str(pid)) for pid in self.pids()) and time.monotonic() < deadline:
            time.sleep(0.05)

    def states(self) -> list[RankState]:
        """Return the state of each rank."""
        ends = self.ends()
        return [
            RankState(
                number,
                self.host,
                process_state(self.note("pid", number)),
                read_beat(self.folder, number),
                number in ends,
            )
            for number in self.numbers
        ]

    def problem(self) -> TrainerError | None:
        """Return why the run cannot go on, or None: a rank died or failed, or none makes progress."""
        return self._death() or self._failure() or self._stall()

    def _death(self) -> TrainerError | None:
        gone = [
            number
            for number in self.numbers
            if (pid := self.note("pid", number)) is not None
            and not process_state(pid)
            and self.note("end", number) is None
        ]
        if not gone:
            return None
        return self._died(gone[0])

    def _died(self, number: int) -> TrainerError:
        states = self.states()
        code = self._exit_code(number)
        how = "" if code is None else f" ({_exit_name(code)})"
        place = next((f", {s.beat.phase}, step {s.beat.step}" for s in states if s.number == number and s.beat), "")
        others = "; ".join(str(state) for state in states if state.number != number)
        passing = code is None or (code < 0 and -code not in DEFECTS)
        tail = last_lines(self.folder / f"worker_{number}.log")
        return (Busy if passing else TrainerError)(
            f"rank {number} on {self.host} died{how}{place}"
            + (f" ({others})" if others else "")
            + f"; the last lines of its log:\n{tail}\n{AGAIN}; their logs are in {self.folder}"
        )

    def _exit_code(self, number: int) -> int | None:
        """Return the exit code of a dead rank, negative for a signal, as msrun logs it; None if it does not."""
        pid, deadline = self.note("pid", number), time.monotonic() + LOG_S
        while time.monotonic() < deadline:
            log = text(self.folder / "msrun.log")
            if found := re.search(rf"Worker process {pid} exit with exception\. Error code: (-?\d+)", log):
                return int(found[1])
            time.sleep(0.05)
        return None

    def _failure(self) -> TrainerError | None:
        """Return the problem if a rank other than 0 has failed and rank 0 has not."""
        failed = [number for number, code in self.ends().items() if number and code and code not in rank.STOPPED]
        if not failed:
            return None
        time.sleep(GRACE_S)
        if self.note("end", 0) is not None:
            return None
        number = next(iter(failed))
        if self.note(rank.GAVE_UP, number) is not None:
            return self.stalled(f"rank {number} on {self.host} gave up waiting for the others")
        return self._died(number)

    def _stall(self) -> Busy | None:
        states = self.states()
        beats = [state.beat for state in states if state.beat is not None and state.beat.phase != STARTING]
        if len(beats) < len(states) or self.ends():
            return None
        silent_s = time.monotonic() - max(beat.at for beat in beats)
        compiles = any(beat.phase == COMPILING for beat in beats)
        if silent_s <= (max(self.limit_s, COMPILE_S) if compiles else self.limit_s):
            return None
        return self.stalled(f"no rank has made progress for {silent_s:.0f} s (--rank-timeout {self.limit_s:g})")

    def stalled(self, why: str) -> Busy:
        """Return the error of ranks that wait for each other."""
        return Busy(f"{why}: {slowest(self.states())}; {AGAIN}")


def process_state(pid: str | None) -> str:
    """Return the state letter of a process, empty if it is gone or a zombie."""
    with contextlib.suppress(OSError):
        letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return "" if letter in "ZX" else letter
    return ""


def _exit_name(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def text(path: Path) -> str:
    """Return the text of a log, empty if there is none."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_text(errors="replace")
    return ""


def last_lines(path: Path) -> str:
    """Return the last lines of a log, indented, without MindSpore's [INFO] lines."""
    lines = [line for line in text(path).splitlines() if not line.startswith("[INFO] ")][-LAST_LINES:]
    return "\n".join(f"  {line}" for line in lines or ["(empty)"])


def send(pids: Sequence[int], signum: int) -> None:
    """Send a signal to the processes that are alive."""
    for pid in pids:
        if process_state(str(pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)
