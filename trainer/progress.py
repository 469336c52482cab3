"""What a run tells while it works: a bar on a terminal, plain lines elsewhere. Always on the stream given (stderr)."""

from dataclasses import dataclass
from typing import Any, Protocol, TextIO


@dataclass(frozen=True)
class StepReport:
    """A step within an epoch. `data_wait` is the share of time spent waiting for data, None where it is not seen:
    before a step was timed, and when the device fetches its own batches.
    """

    epoch: int
    step: int
    loss: float
    images_per_s: float
    data_wait: float | None


@dataclass(frozen=True)
class EpochReport:
    """One epoch. `step` counts from the start of the run; `lr` is that of its last step; times in seconds.

    `loss` is the mean over the epoch's steps, label smoothing included, so it does not reach 0. `skipped` counts the
    updates left out since the start because a gradient overflowed. The val fields are None without a val split.
    """

    epoch: int
    step: int
    loss: float
    lr: float
    images_per_s: float
    data_wait: float | None
    skipped: int
    train_s: float
    val_s: float
    val_loss: float | None
    val_accuracy: float | None


class Progress(Protocol):
    """The four things a run reports."""

    def note(self, text: str) -> None:
        """A sentence or a table of its own."""

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

    def epoch_begin(self, epoch: int, epochs: int, steps: int) -> None:
        """Nothing."""

    def step(self, report: StepReport) -> None:
        """Nothing."""

    def epoch_end(self, report: EpochReport) -> None:
        """Nothing."""


class Lines:
    """Plain lines: one every `every` steps and one an epoch."""

    def __init__(self, stream: TextIO, every: int) -> None:
        self.stream = stream
        self.every = every
        self.epochs = self.steps = 0

    def note(self, text: str) -> None:
        """Write the text."""
        print(text, file=self.stream, flush=True)

    def epoch_begin(self, epoch: int, epochs: int, steps: int) -> None:
        """Remember the totals."""
        self.epochs, self.steps = epochs, steps

    def step(self, report: StepReport) -> None:
        """Write each `every`th step; the epoch's last has the epoch's line."""
        if report.step % self.every == 0 and report.step != self.steps:
            self.note(f"epoch {report.epoch}/{self.epochs}  step {report.step}/{self.steps}  {_measures(report)}")

    def epoch_end(self, report: EpochReport) -> None:
        """Write the epoch's line."""
        self.note(f"epoch {report.epoch}/{self.epochs}  {_measures(report)}{_val(report)}")


class Bar(Lines):
    """A tqdm bar an epoch, which the epoch's line replaces."""

    def __init__(self, stream: TextIO, every: int) -> None:
        super().__init__(stream, every)
        self.bar: Any = None

    def epoch_begin(self, epoch: int, epochs: int, steps: int) -> None:
        """Open the bar."""
        from tqdm import tqdm

        super().epoch_begin(epoch, epochs, steps)
        name, form = f"epoch {epoch}/{epochs}", "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{postfix}"
        # The postfix has what tqdm would say of speed, in images.
        self.bar = tqdm(total=steps, desc=name, file=self.stream, leave=False, dynamic_ncols=True, bar_format=form)

    def step(self, report: StepReport) -> None:
        """Move the bar; with sink one report stands for many steps."""
        self.bar.set_postfix_str(_measures(report), refresh=False)
        self.bar.update(report.step - self.bar.n)

    def epoch_end(self, report: EpochReport) -> None:
        """Close the bar and write the epoch's line."""
        self.bar.close()
        super().epoch_end(report)


def make_progress(stream: TextIO, every: int) -> Progress:
    """A bar when the stream is a terminal, lines otherwise."""
    return Bar(stream, every) if stream.isatty() else Lines(stream, every)


def _measures(report: StepReport | EpochReport) -> str:
    wait = "" if report.data_wait is None else f"  data wait {report.data_wait:.0%}"
    return f"loss {report.loss:.4f}  {report.images_per_s:.0f} images/s{wait}"


def _val(report: EpochReport) -> str:
    skipped = f"  {report.skipped} updates skipped" if report.skipped else ""
    if report.val_accuracy is None:
        return skipped
    return f"{skipped}  val loss {report.val_loss:.4f}  val accuracy {report.val_accuracy:.2%}"
