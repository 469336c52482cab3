"""Points at which tests can kill a run, so that the kill is reproducible and does not depend on timing."""

import os
import signal

POINTS = ("step", "saved", "epoch.metrics", "epoch.best", "epoch.saved")


def kill_point(point: str, step: int) -> None:
    """Kill the process if the environment variable TRAINER_KILL_AT is "point:step"."""
    if os.environ.get("TRAINER_KILL_AT") == f"{point}:{step}":
        os.kill(os.getpid(), signal.SIGKILL)
