"""Steps at which a test may have the job killed, so that "killed anywhere" is driven by place and not by time."""

import os
import signal

STEPS = (
    "plan.written",
    "plan.saved",
    "build.row",
    "build.finished",
    "prove.done",
    "exclude.saved",
    "commit.data",
    "commit.index",
    "commit.rows",
    "commit.receipt",
    "seal.row_digests",
    "seal.rejects",
    "seal.duplicates",
    "seal.manifest",
)
# Steps of a new set or plan into the place of an old one, see swap.py.
SWAP_STEPS = ("swap.journal", "swap.removed", "swap.moved", "swap.files", "swap.manifest", "swap.cleaned")


def kill_point(step: str) -> None:
    """Say that the job has come to `step`; the process is killed there when DATAPREP_KILL_AT names it."""
    if os.environ.get("DATAPREP_KILL_AT") == step:
        os.kill(os.getpid(), signal.SIGKILL)
