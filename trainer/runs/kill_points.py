"""Points at which tests can kill a run, so that the kill is reproducible and does not depend on timing."""

import os
import signal
from pathlib import Path

from trainer.device import rank

POINTS = ("step", "evaluate", "save", "saved", "epoch.metrics", "epoch.best", "epoch.saved")
LAUNCHER = "launcher"  # as a rank: the process that started the ranks


def kill_point(point: str, step: int) -> None:
    """Kill the process if the environment variable TRAINER_KILL_AT is "point:step".

    "point:step@R" kills rank R only, "point:step@launcher" the launcher of the ranks. TRAINER_KILL_SIGNAL is the number
    of the signal, SIGKILL by default.
    """
    place, _, victim = os.environ.get("TRAINER_KILL_AT", "").partition("@")
    if place != f"{point}:{step}":
        return
    number = int(os.environ.get("TRAINER_KILL_SIGNAL") or signal.SIGKILL)
    if victim == LAUNCHER:
        os.kill(int(Path(os.environ[rank.FOLDER], LAUNCHER).read_text()), number)
        if number == signal.SIGKILL:
            signal.pause()  # until this process is killed with it
    elif not victim or victim == str(rank.number()):
        os.kill(os.getpid(), number)
