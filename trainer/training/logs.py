"""Logs that a run writes when asked: step lines, TensorBoard events, MindSpore's monitors, its profiler."""

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
from trainer.runs.folder import BOARD, CURVES, PROFILE, STEPS, append_line
from trainer.runs.state import RunState
from trainer.training.callbacks import Schedule
from trainer.training.meter import Meter

MONITORS = {"LossMonitor": LossMonitor, "TimeMonitor": TimeMonitor}


class StepLines(Callback):  # type: ignore[misc]
    """A line of JSON every `every` steps: epoch, step since the run's start, loss, rate, images/s, share of waiting."""

    def __init__(self, meter: Meter, course: Schedule, state: RunState, every: int, path: Path, board: Any) -> None:
        super().__init__()
        self.meter = meter
        self.course = course
        self.state = state
        self.every = every
        self.path = path
        self.board = board
        self.told = state.step

    def on_train_begin(self, run_context: RunContext) -> None:
        """Make the file, which a run of fewer steps leaves empty."""
        self.path.touch()

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Write when so many steps have passed; with sink one call stands for many steps. To be called after Watch."""
        step = self.state.step
        if step // self.every == self.told // self.every:
            return
        self.told = step
        wait = self.meter.data_wait
        values = {
            "loss": float(run_context.original_args().net_outputs.asnumpy()),
            "lr": self.course.rate(step),
            "images_per_s": self.meter.rounded_images_per_s,
            "data_wait": None if wait is None else round(wait, 4),
        }
        line = {"epoch": (step - 1) // self.course.steps + 1, "step": step, **values}
        append_line(self.path, json.dumps(line), durable=False)
        if self.board is not None:
            for name, value in values.items():
                if value is not None:
                    self.board.add_scalar(f"step/{name}", value, step)


class ProfileSteps(Callback):  # type: ignore[misc]
    """Runs MindSpore's profiler from the begin of step `first` to the end of step `last`, counted from the run's start.

    What it gathers is written into `folder`, in the form that MindStudio Insight opens. `tell` is given its end.
    """

    def __init__(
        self, first: int, last: int, folder: Path, tell: Callable[[str], None], course: Schedule, state: RunState
    ) -> None:
        super().__init__()
        self.first = first
        self.last = last
        self.folder = folder
        self.tell = tell
        self.course = course
        self.state = state
        self.profiler: Any = None

    def on_train_step_begin(self, run_context: RunContext) -> None:
        """Start before the first step."""
        # In MindSpore the number of a step that begins is already its own.
        if run_context.original_args().cur_step_num == self.first:
            ready = tensorboard_trace_handler(str(self.folder))
            self.profiler = profile(start_profile=False, on_trace_ready=ready)
            self.profiler.start()

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Stop after the last step."""
        if run_context.original_args().cur_step_num >= self.last:
            self._stop(self.last)

    def on_train_end(self, run_context: RunContext) -> None:
        """Stop when the run is shorter than the range, or interrupted; not between two epochs."""
        if self.course.is_over(self.state) or self.state.step % self.course.steps:
            self._stop(self.state.step)

    def _stop(self, last: int) -> None:
        if self.profiler is not None:
            self.profiler.stop()
            self.profiler = None
            self.tell(f"profile of steps {self.first} to {last}: {self.folder} (open it in MindStudio Insight)")


class Curves(Callback):  # type: ignore[misc]
    """After each epoch, and its line in metrics.jsonl: the curves as SVG, and the line's values to TensorBoard."""

    def __init__(self, metrics: Path, svg: Path, board: Any) -> None:
        super().__init__()
        self.metrics = metrics
        self.svg = svg
        self.board = board

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Draw anew; nothing when the epoch was interrupted before its line."""
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
    config: RunConfig,
    run: Path,
    meter: Meter,
    course: Schedule,
    state: RunState,
    metrics: Path,
    tell: Callable[[str], None],
) -> list[Any]:
    """The callbacks of all logs that `config` asks for, writing into the run's folder; to stand after Watch and
    EpochEnd. Raises TrainerError when a package is missing.
    """
    board = open_board(run / BOARD) if config.tensorboard else None
    callbacks: list[Any] = [StepLines(meter, course, state, config.log_every, run / STEPS, board)]
    callbacks += [Curves(metrics, run / CURVES, board)]
    callbacks += [MONITORS[name]() for name in config.monitor]
    if config.profile_steps is not None:
        callbacks.append(ProfileSteps(*config.profile_steps, run / PROFILE, tell, course, state))
    return callbacks


def open_board(folder: Path) -> Any:
    """A writer of TensorBoard event files into `folder`; raises TrainerError without the package."""
    try:
        board = importlib.import_module("tensorboardX")
    except ModuleNotFoundError:
        raise TrainerError(NO_BOARD) from None
    return board.SummaryWriter(logdir=str(folder))
