"""Ranks agree on the step after which a signal stops them."""

import signal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mindspore import Tensor

from trainer.signals import StopSignals
from trainer.training.stop_votes import StopVotes

pytestmark = pytest.mark.slow


class Step:
    """A step that sums the votes of two ranks; `other` is the vote of the other one."""

    def __init__(self, other: float) -> None:
        self.own, self.other = 0.0, other

    def vote_to_stop(self) -> None:
        self.own = 1.0

    @property
    def votes(self) -> Tensor:
        return Tensor(np.float32(self.own + self.other))


CONTEXT: Any = SimpleNamespace()


@pytest.mark.parametrize(
    ("received", "other", "agreed"),
    [(None, 0.0, None), (signal.SIGINT, 0.0, signal.SIGINT), (None, 1.0, signal.SIGTERM)],
    ids=["no signal", "own signal", "signal on the other rank"],
)
def test_ranks_stop_after_the_step_that_carried_a_vote(received: Any, other: float, agreed: Any) -> None:
    own = StopSignals()
    votes = StopVotes(own, Step(other), ranks=2)
    own.signum = received
    assert votes.agreed.signum is None, "not before the others know"
    votes.on_train_step_begin(CONTEXT)
    votes.on_train_step_end(CONTEXT)
    assert votes.agreed.signum == agreed


def test_one_rank_stops_by_its_own_signal() -> None:
    own = StopSignals()
    votes = StopVotes(own, Step(0.0), ranks=1)
    own.signum = signal.SIGTERM
    votes.on_train_step_begin(CONTEXT)
    votes.on_train_step_end(CONTEXT)
    assert votes.agreed is own
