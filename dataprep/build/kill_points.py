"""Steps at which a test can kill the job, so that tests of crash safety do not depend on time."""

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
# Steps that replace a dataset or plan by a new one, see swap.py.
SWAP_STEPS = ("swap.journal", "swap.removed", "swap.moved", "swap.files", "swap.manifest", "swap.cleaned")


def kill_point(step: str) -> None:
    """Kill this process if DATAPREP_KILL_AT is `step`."""
    if os.environ.get("DATAPREP_KILL_AT") == step:
        os.kill(os.getpid(), signal.SIGKILL)
