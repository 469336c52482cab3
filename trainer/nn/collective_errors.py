"""Errors of collective operations: a rank that waited too long for the others ends with exit code 75."""

import contextlib
import platform
import re
from collections.abc import Callable, Iterator

from trainer.device import rank
from trainer.errors import Busy

# MindSpore's CPU collectives wait 30 s, and its scheduler reports a rank without heartbeat as soon (measured on 2.10).
# EI0002 and EI0006 are HCCL's codes for a wait that is over; they were not tried.
_WAITED = re.compile(
    r"Launch kernel failed: \S*All(Reduce|Gather)|The state of the cluster is error|number of timed out node|"
    r"\bEI000[26]\b"
)


@contextlib.contextmanager
def collective_errors(step: Callable[[], int]) -> Iterator[None]:
    """Turn the error of a collective that waited too long into Busy, and tell the launcher. `step` is the last step."""
    try:
        yield
    except RuntimeError as error:
        if not _WAITED.search(str(error)):
            raise
        if rank.launched():
            rank.note(rank.GAVE_UP, str(step()))
        raise Busy(
            f"rank {rank.number()} on {platform.node()} waited too long for the other ranks after step {step()}; "
            "the same command resumes from the last checkpoint"
        ) from error
