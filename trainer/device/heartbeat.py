"""The heartbeat of a rank: its step and phase, in memory that the launcher on its host maps too.

Nothing here waits or makes a system call after the first beat, so a rank may beat in each step.
"""

import functools
import mmap
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from trainer.device import rank

FIELDS = struct.Struct("=iqddd")
# In the order of a run: a rank in an earlier phase of the same step is behind.
STARTING, DATA, COMPILING = "starting", "waiting for data", "in its first step, which compiles"
STEP, EVALUATION, SAVE = "in the step", "evaluating", "saving"
PHASES = (STARTING, DATA, COMPILING, STEP, EVALUATION, SAVE)


@dataclass(frozen=True)
class Heartbeat:
    """The last beat of a rank: `at` is its time (CLOCK_MONOTONIC, the same for all processes of a host).

    `wait_s` and `work_s` are the seconds of the epoch spent waiting for data and in steps.
    """

    phase: str = STARTING
    step: int = 0
    at: float = 0.0
    wait_s: float = 0.0
    work_s: float = 0.0

    @property
    def place(self) -> tuple[int, int]:
        """How far the rank has come: step, and phase within it."""
        return self.step, PHASES.index(self.phase)


def beat(phase: str, step: int, times: tuple[float, float] = (0.0, 0.0)) -> None:
    """Record where this rank is, if a launcher watches it."""
    if rank.launched():
        FIELDS.pack_into(_memory(), 0, PHASES.index(phase), step, time.monotonic(), *times)


@functools.lru_cache(maxsize=1)
def _memory() -> mmap.mmap:
    path = Path(os.environ[rank.FOLDER], f"beat_{rank.number()}")
    path.write_bytes(bytes(FIELDS.size))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), FIELDS.size)


def read_beat(folder: Path, number: int) -> Heartbeat | None:
    """Return the last beat of rank `number`, None before its first."""
    try:
        phase, step, at, wait_s, work_s = FIELDS.unpack((folder / f"beat_{number}").read_bytes())
    except (FileNotFoundError, struct.error):
        return None
    return Heartbeat(PHASES[phase], step, at, wait_s, work_s) if at else None
