"""What a run reports while it trains; a command decides how it is shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from trainer.decisions import Decision


@dataclass(frozen=True)
class StepReport:
    """A step within an epoch. `data_wait` is the share of time spent waiting for data, None where it is not seen:
    before a step was timed, and when the device fetches its own batches. `images_per_s` is None until one
    was timed.

    `lr` is the learning rate of the last update. `skipped` counts the updates left out since the start because a
    gradient overflowed. `best` is the highest val accuracy of the run so far, None before one was measured. `left_s` is
    how long the run will last at this speed, in seconds; None before a step was timed.
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
    """One epoch. `step` counts from the start of the run; `lr` is that of its last step; times in seconds.

    `loss` is the mean over the epoch's steps, label smoothing included, so it does not reach 0. `skipped` counts the
    updates left out since the start because a gradient overflowed. The val fields are None without a val split, and
    `images_per_s` where no step was timed.
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
    """The five things a run reports."""

    def note(self, text: str) -> None:
        """A sentence of its own."""

    def settings(self, decisions: Sequence[Decision]) -> None:
        """The table of what was asked for and what is in effect."""

    def epoch_begin(self, epoch: int, epochs: int, steps: int) -> None:
        """An epoch of `steps` batches begins."""

    def step(self, report: StepReport) -> None:
        """Some steps are done."""

    def epoch_end(self, report: EpochReport) -> None:
        """An epoch is trained and evaluated."""


class Silent:
    """Says nothing: another rank speaks."""

    def note(self, text: str) -> None:
        """Nothing."""

    def settings(self, decisions: Sequence[Decision]) -> None:
        """Nothing."""

    def epoch_begin(self, epoch: int, epochs: int, steps: int) -> None:
        """Nothing."""

    def step(self, report: StepReport) -> None:
        """Nothing."""

    def epoch_end(self, report: EpochReport) -> None:
        """Nothing."""
