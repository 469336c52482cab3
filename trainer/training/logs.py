"""Logs of a run: step lines, curves, TensorBoard events, MindSpore's monitors and profiler."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mindspore.profiler import profile, tensorboard_trace_handler
from mindspore.train import Callback, LossMonitor, RunContext, TimeMonitor

from schemas.storage.files import write_whole
from trainer.config import RunConfig
from trainer.errors import TrainerError
from trainer.plan.preflight import NO_BOARD
from trainer.runs.curves import draw_curves
from trainer.runs.folder import BOARD, CURVES, METRICS, PROFILE, STEPS, append_line
from trainer.runs.state import RunState
from trainer.training.callbacks import Schedule
from trainer.training.meter import Meter

MONITORS = {"LossMonitor": LossMonitor, "TimeMonitor": TimeMonitor}


class StepLines(Callback):  # type: ignore[misc]
    """Callback that writes a JSON line every `every` steps: epoch, step of the run, loss, lr, images/s, data wait."""

    def __init__(self, meter: Meter, schedule: Schedule, state: RunState, every: int, path: Path, board: Any) -> None:
        super().__init__()
        self.meter = meter
        self.schedule = schedule
        self.state = state
        self.every = every
        self.path = path
        self.board = board
        self.last_step = state.step

    def on_train_begin(self, run_context: RunContext) -> None:
        """Create the file. A run of fewer than `every` steps leaves the file empty."""
        self.path.touch()

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Write a line if due. With data sinking, one call covers many steps."""
        step = self.state.step
        if step // self.every == self.last_step // self.every:
            return
        self.last_step = step
        wait = self.meter.data_wait
        values = {
            "loss": float(run_context.original_args().net_outputs.asnumpy()),
            "lr": self.schedule.rate(step),
            "images_per_s": self.meter.rounded_images_per_s,
            "data_wait": None if wait is None else round(wait, 4),
        }
        line = {"epoch": (step - 1) // self.schedule.steps + 1, "step": step, **values}
        append_line(self.path, json.dumps(line), durable=False)
        if self.board is not None:
            for name, value in values.items():
                if value is not None:
                    self.board.add_scalar(f"step/{name}", value, step)


class ProfileSteps(Callback):  # type: ignore[misc]
    """Callback that runs MindSpore's profiler over steps `first` to `last` of the run.

    MindStudio Insight can open the profile in `folder`. `note` is called with a sentence when the profile is complete.
    """

    def __init__(
        self, first: int, last: int, folder: Path, note: Callable[[str], None], schedule: Schedule, state: RunState
    ) -> None:
        super().__init__()
        self.first = first
        self.last = last
        self.folder = folder
        self.note = note
        self.schedule = schedule
        self.state = state
        self.profiler: Any = None

    def on_train_step_begin(self, run_context: RunContext) -> None:
        """Start the profiler before step `first`."""
        # MindSpore has already incremented the step number here.
        if run_context.original_args().cur_step_num == self.first:
            ready = tensorboard_trace_handler(str(self.folder))
            self.profiler = profile(start_profile=False, on_trace_ready=ready)
            self.profiler.start()

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Stop the profiler after step `last`."""
        if run_context.original_args().cur_step_num >= self.last:
            self._stop(self.last)

    def on_train_end(self, run_context: RunContext) -> None:
        """Stop the profiler if the run ends early. Between two epochs the profiler continues."""
        if self.schedule.is_over(self.state) or self.state.step % self.schedule.steps:
            self._stop(self.state.step)

    def _stop(self, last: int) -> None:
        if self.profiler is not None:
            self.profiler.stop()
            self.profiler = None
            self.note(f"profile of steps {self.first} to {last}: {self.folder} (open it in MindStudio Insight)")


class Curves(Callback):  # type: ignore[misc]
    """Callback that draws the curves as SVG after each epoch, and logs the metrics to TensorBoard."""

    def __init__(self, metrics: Path, svg: Path, board: Any) -> None:
        super().__init__()
        self.metrics = metrics
        self.svg = svg
        self.board = board

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Draw the curves. Do nothing if an interruption left no metrics."""
        if not self.metrics.exists():
            return
        write_whole(self.svg, draw_curves(self.metrics))
        if self.board is not None:
            report = json.loads(self.metrics.read_text().splitlines()[-1])
            for name, value in report.items():
                if name not in ("epoch", "step") and value is not None:
                    self.board.add_scalar(f"epoch/{name}", value, report["step"])
            self.board.flush()


def log_callbacks(
    config: RunConfig, run: Path, meter: Meter, schedule: Schedule, state: RunState, note: Callable[[str], None]
) -> list[Any]:
    """Return the callbacks of all logs in `config`, which write into the folder `run`.

    Place these callbacks after StepCallback and EpochCallback. Raises TrainerError if a package is missing.
    """
    board = open_board(run / BOARD) if config.tensorboard else None
    callbacks: list[Any] = [StepLines(meter, schedule, state, config.log_every, run / STEPS, board)]
    callbacks += [Curves(run / METRICS, run / CURVES, board)]
    callbacks += [MONITORS[name]() for name in config.monitor]
    if config.profile_steps is not None:
        callbacks.append(ProfileSteps(*config.profile_steps, run / PROFILE, note, schedule, state))
    return callbacks


def open_board(folder: Path) -> Any:
    """Return a writer of TensorBoard event files into `folder`. Raises TrainerError if tensorboardX is missing."""
    try:
        board = importlib.import_module("tensorboardX")
    except ModuleNotFoundError:
        raise TrainerError(NO_BOARD) from None
    return board.SummaryWriter(logdir=str(folder))
