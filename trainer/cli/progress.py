"""Progress of a run: a bar on a terminal, plain lines elsewhere, always on the given stream (stderr)."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import click

from schemas.command_line import label, replaced_lists
from schemas.counting import many
from trainer.cli.run_text import bottleneck_text, settings_table
from trainer.decisions import Decision
from trainer.device import rank
from trainer.training.meter import WaitReport
from trainer.training.progress import EpochReport, Progress, StepReport

LEAST_BAR = 6  # columns; measures are dropped before the bar becomes shorter
RATE, WAIT = "{:.0f} images/s", "data wait {:.0%}"
LARGE = 1e4  # larger values are shown with four digits instead of four decimals


class Command(click.Command):
    """Command that first warns about each list in its --config file that an option replaces."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        for replaced in () if rank.launched() else replaced_lists(ctx):  # the launcher has warned
            click.echo(label("Warning", "yellow", sys.stderr) + replaced, err=True)
        return super().invoke(ctx)


class Group(click.Group):
    """Group whose commands are of class Command."""

    command_class = Command


class Lines:
    """Progress as plain lines, one every `every` steps and one per epoch. `verbose` also shows default settings."""

    def __init__(self, stream: TextIO, every: int, verbose: bool = False) -> None:
        self.stream = stream
        self.every = every
        self.verbose = verbose
        self.epochs = self.steps = 0

    def note(self, text: str) -> None:
        """Write the text."""
        print(text, file=self.stream, flush=True)

    def settings(self, decisions: Sequence[Decision]) -> None:
        """Write the table, as wide as the terminal if there is one."""
        self.note(settings_table(decisions, terminal_width(self.stream), self.verbose))

    def epoch_begin(self, epoch: int, epochs: int, steps: int) -> None:
        """Store the numbers of epochs and steps."""
        self.epochs, self.steps = epochs, steps

    def step(self, report: StepReport) -> None:
        """Write a line every `every` steps, except for the last step, which the line of the epoch covers."""
        if report.step % self.every == 0 and report.step != self.steps:
            measures = "  ".join(measure for _, measure in _measures(report))
            self.note(f"epoch {report.epoch}/{self.epochs}  step {report.step}/{self.steps}  {measures}")

    def epoch_end(self, report: EpochReport) -> None:
        """Write the line of the epoch."""
        name, width = f"epoch {report.epoch}/{self.epochs}  ", terminal_width(self.stream)
        self.note(name + fitting(_epoch_measures(report), None if width is None else width - len(name)))

    def bottleneck(self, report: WaitReport) -> None:
        """Write the bottleneck of the run."""
        self.note(bottleneck_text(report))


class Bar(Lines):
    """Progress as a tqdm bar per epoch. At the end of the epoch, a line replaces the bar."""

    def __init__(self, stream: TextIO, every: int, verbose: bool = False) -> None:
        super().__init__(stream, every, verbose)
        self.bar: Any = None

    def epoch_begin(self, epoch: int, epochs: int, steps: int) -> None:
        """Open the bar."""
        from tqdm import tqdm

        super().epoch_begin(epoch, epochs, steps)
        # The postfix shows images/s and the time left of the whole run, instead of tqdm's speed and time.
        form = "{desc} |{bar}| {n_fmt}/{total_fmt}{postfix}"
        name = f"epoch {epoch}/{epochs}"
        self.bar = tqdm(total=steps, desc=name, file=self.stream, leave=False, dynamic_ncols=True, bar_format=form)

    def step(self, report: StepReport) -> None:
        """Move the bar. With data sinking, one report covers many steps."""
        width = terminal_width(self.stream)
        # tqdm puts ", " before the postfix, and one column stays free.
        fixed = f"epoch {report.epoch}/{self.epochs} || {report.step}/{self.steps}, "
        columns = None if width is None else width - len(fixed) - LEAST_BAR - 1
        self.bar.set_postfix_str(fitting(_measures(report), columns), refresh=False)
        self.bar.update(report.step - self.bar.n)

    def epoch_end(self, report: EpochReport) -> None:
        """Close the bar and write the line of the epoch."""
        self.bar.close()
        super().epoch_end(report)


def make_progress(stream: TextIO, every: int, verbose: bool = False) -> Progress:
    """Return a bar if the stream is a terminal, lines otherwise."""
    return Bar(stream, every, verbose) if stream.isatty() else Lines(stream, every, verbose)


def settings_shower(every: bool) -> Callable[[Sequence[Decision]], None]:
    """Return a function that writes the table of settings to stderr; `every` includes defaults."""
    return Lines(sys.stderr, 1, every).settings


def terminal_width(stream: TextIO) -> int | None:
    """Return the width, in columns, of the terminal behind a stream, or None if it is unknown."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):  # ValueError: no descriptor, or closed
        return None


def decimals(value: float) -> str:
    """Return a loss with four decimals, or four digits if it is large."""
    return f"{value:.4f}" if abs(value) < LARGE else f"{value:.4g}"


def duration(seconds: float) -> str:
    """Return seconds as M:SS or H:MM:SS."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def fitting(measures: Sequence[tuple[int, str]], width: int | None) -> str:
    """Join (priority, text) measures to at most `width` columns. High priority numbers are dropped first."""
    kept = list(measures)
    while width is not None and kept and len("  ".join(measure for _, measure in kept)) > width:
        kept.remove(max(kept))
    return "  ".join(measure for _, measure in kept)


def _measures(report: StepReport) -> list[tuple[int, str]]:
    """Return the measures of a step as (priority, text), in the order of the output line, for `fitting`."""
    parts = [(0, [f"loss {decimals(report.loss)}"])]
    parts += [(4, _optional("lr {:.3g}", report.lr)), (5, _optional(RATE, report.images_per_s))]
    parts += [(6, _optional(WAIT, report.data_wait)), (1, _skipped(report.skipped))]
    parts += [(3, _optional("best {:.2%}", report.best))]
    parts += [(2, [] if report.left_s is None else [f"{duration(report.left_s)} left"])]
    return [(priority, text) for priority, texts in parts for text in texts]


def _epoch_measures(report: EpochReport) -> list[tuple[int, str]]:
    parts = [(0, [f"loss {decimals(report.loss)}"]), (4, _optional(RATE, report.images_per_s))]
    parts += [(5, _optional(WAIT, report.data_wait)), (2, _skipped(report.skipped))]
    if report.val_accuracy is not None and report.val_loss is not None:
        parts += [(3, [f"val loss {decimals(report.val_loss)}"]), (1, [f"val accuracy {report.val_accuracy:.2%}"])]
    return [(priority, text) for priority, texts in parts for text in texts]


def _optional(form: str, value: float | None) -> list[str]:
    return [] if value is None else [form.format(value)]


def _skipped(skipped: int) -> list[str]:
    return [f"{many(skipped, 'update')} skipped"] if skipped else []
