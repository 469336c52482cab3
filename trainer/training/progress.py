"""Progress reports of a run; the command line decides how to show them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from trainer.decisions import Decision
from trainer.training.meter import WaitReport


@dataclass(frozen=True)
class StepReport:
    """Report of a step.

    `data_wait` is the share of time spent waiting for data, or None before the first timed step and with data sinking.
    `images_per_s` is None before the first timed step. `lr` is the learning rate of the last update. `skipped` is the
    number of updates skipped since the start of the run because a gradient overflowed. `best` is the highest val
    accuracy so far, or None. `left_s` is the estimated remaining time in seconds.
    """

    epoch: int
    step: int
    loss: float
    images_per_s: float | None
    data_wait: float | None
    lr: float | None = None
    skipped: int = 0
    best: float | None = None
    left_s: float | None = None


@dataclass(frozen=True)
class EpochReport:
    """Report of an epoch. `step` is its last step, counted from the start of the run. Times are in seconds.

    `loss` is the mean over the steps of the epoch, including label smoothing, so it does not reach 0. `lr` is the
    learning rate of the last step. `skipped` is as in StepReport. `val_accuracy` is the main metric of the task. The
    val fields are None without a val split. `images_per_s` is None if no step was timed.
    """

    epoch: int
    step: int
    loss: float
    lr: float
    images_per_s: float | None
    data_wait: float | None
    skipped: int
    train_s: float
    val_s: float
    val_loss: float | None
    val_accuracy: float | None


class Progress(Protocol):
    """Receiver of the reports of a run."""

    def note(self, text: str) -> None:
        """Show a sentence."""

    def settings(self, decisions: Sequence[Decision]) -> None:
        """Show the table of requested settings and settings in effect."""

    def epoch_begin(self, epoch: int, epochs: int, steps: int) -> None:
        """Start epoch number `epoch` of `epochs`, with `steps` batches."""

    def step(self, report: StepReport) -> None:
        """Show the latest step."""

    def epoch_end(self, report: EpochReport) -> None:
        """Show a trained and evaluated epoch."""

    def bottleneck(self, report: WaitReport) -> None:
        """Show the bottleneck at the end of the run."""


class Silent:
    """Progress that shows nothing, for ranks other than 0."""

    def note(self, text: str) -> None:
        """Show nothing."""

    def settings(self, decisions: Sequence[Decision]) -> None:
        """Show nothing."""

    def epoch_begin(self, epoch: int, epochs: int, steps: int) -> None:
        """Show nothing."""

    def step(self, report: StepReport) -> None:
        """Show nothing."""

    def epoch_end(self, report: EpochReport) -> None:
        """Show nothing."""

    def bottleneck(self, report: WaitReport) -> None:
        """Show nothing."""
