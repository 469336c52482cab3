"""The decision of several ranks to stop: one that received a signal stops all of them after the same step."""

import signal
from collections.abc import Callable
from typing import Any

from mindspore.train import Callback, RunContext

from trainer.errors import Interrupted
from trainer.nn.all_reduce import sum_scores
from trainer.nn.tasks.task import Sums
from trainer.signals import StopSignals


class StopVotes(Callback):  # type: ignore[misc]
    """Passes the signal of this rank (`own`) to all ranks with the next step, and sets `agreed` on all of them.

    With one rank both are the same. Must come before the callbacks that read `agreed`.
    """

    def __init__(self, own: StopSignals, step: Any, ranks: int) -> None:
        super().__init__()
        self.own = own
        self.shared = ranks > 1
        self.agreed = StopSignals() if self.shared else own
        self.step = step
        self.voted = False

    def on_train_step_begin(self, run_context: RunContext) -> None:
        """Vote to stop if this rank received a signal."""
        if self.shared and self.own.signum is not None and not self.voted:
            self.voted = True
            self.step.vote_to_stop()

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Stop if any rank has voted for it."""
        if self.shared and self.step.votes.asnumpy() > 0:
            self.agree()

    def summed(self, evaluate: Callable[[], Sums], none: Sums) -> Sums:
        """Return the sum of the scores that `evaluate` returns on each rank.

        Raise Interrupted on all ranks if it was interrupted on one, whose share is then `none`.
        """
        if not self.shared:
            return evaluate()
        interrupted = False
        try:
            scores = evaluate()
        except Interrupted:
            scores, interrupted = none, True
        total, votes = sum_scores(scores, interrupted)
        if votes:
            self.agree()
            self.agreed.check()
        return total

    def agree(self) -> None:
        """Stop: all ranks must call this at the same point."""
        self.agreed.signum = self.own.signum or signal.SIGTERM
