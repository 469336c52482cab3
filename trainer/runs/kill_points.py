"""Places at which a test may have the run killed, so that "killed anywhere" is driven by place and not by time."""

import os
import signal

PLACES = ("step", "saved", "epoch.metrics", "epoch.best", "epoch.saved")


def kill_point(place: str, step: int) -> None:
    """Say that the run has come to `place` at `step`; it is killed there when TRAINER_KILL_AT is "place:step"."""
    if os.environ.get("TRAINER_KILL_AT") == f"{place}:{step}":
        os.kill(os.getpid(), signal.SIGKILL)
