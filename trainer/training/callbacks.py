"""MindSpore callbacks around steps and epochs: report, stop on a signal, evaluate and save.

With a sink size, MindSpore counts each sink as an epoch. So RunState counts the steps, and the step number tells when
an epoch ends.
"""

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from mindspore.train import Callback, RunContext

from schemas.counting import many
from trainer.device.heartbeat import COMPILING, DATA, STEP, beat
from trainer.device.precision import overflow_advice
from trainer.errors import Interrupted, TrainerError
from trainer.nn.tasks.task import Scores
from trainer.runs import kill_points
from trainer.runs.folder import append_line
from trainer.runs.state import RunState
from trainer.signals import StopSignals
from trainer.training.meter import Meter
from trainer.training.progress import EpochReport, Progress, StepReport
from trainer.training.rank_state import slow_rank

ENOUGH_STEPS = 20  # timed steps; with fewer, the estimate of the remaining time includes earlier epochs


@dataclass(frozen=True)
class Schedule:
    """Training schedule: `steps` per epoch, learning rate (`rates`) per update, and steps per update (`accumulate`).

    `patience` is in epochs, `save_every` in steps; None means off. The run is evaluated every `val_every` epochs.
    `fixed_scale` is the constant loss scale, if any.
    """

    epochs: int
    steps: int
    rates: list[float]
    accumulate: int = 1
    patience: int | None = None
    save_every: int | None = None
    max_overflows: int = 20
    fixed_scale: float | None = None
    val_every: int = 1

    def is_over(self, state: RunState) -> bool:
        """Return True if the run is complete."""
        patience = self.patience if self.evaluates(state.step // self.steps) else None
        return state.is_over(self.epochs * self.steps, self.steps, patience)

    def evaluates(self, epoch: int) -> bool:
        """Return True if the network is evaluated after this epoch, counted from 1."""
        return epoch % self.val_every == 0 or epoch == self.epochs

    def rate(self, step: int) -> float:
        """Return the learning rate of the last update up to `step`."""
        return self.rates[max(step // self.accumulate, 1) - 1]

    def left_s(self, state: RunState, times: tuple[float, float, int]) -> float | None:
        """Return the estimated seconds until the last epoch is evaluated, or None before the first timed step.

        `times` has the seconds of waiting, the seconds of work and the timed steps of the current epoch. With few timed
        steps, earlier epochs are included, because the first batch of an epoch is slow.
        """
        wait_s, work_s, timed = times
        if timed < ENOUGH_STEPS:
            wait_s, work_s, timed = wait_s + state.wait_s, work_s + state.work_s, timed + state.timed_steps
        if not timed:
            return None
        evaluations = self.epochs - (state.step - 1) // self.steps
        training_s = (self.epochs * self.steps - state.step) * (wait_s + work_s) / timed
        return training_s + evaluations * float(state.last.get("val_s", 0.0))


class Step(Protocol):
    """Attributes of the training step that callbacks read."""

    scaled: bool
    skipped: Any
    skipped_in_row: Any


class StepNumbers(Callback):  # type: ignore[misc]
    """First callback of a run, which sets MindSpore's step and epoch numbers to those of the run.

    MindSpore counts from each call of Model.train. A resumed run makes a new call, and a run on CPU a call per epoch.
    """

    def __init__(self, schedule: Schedule, state: RunState, per_epoch: bool) -> None:
        super().__init__()
        self.schedule = schedule
        self.state = state
        self.per_epoch = per_epoch

    def on_train_begin(self, run_context: RunContext) -> None:
        """Set the step number."""
        run_context.original_args().cur_step_num = self.state.step

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        """Set the epoch number if Model.train is called once per epoch."""
        if self.per_epoch:
            run_context.original_args().cur_epoch_num = self.state.step // self.schedule.steps + 1


@dataclass(frozen=True)
class ActiveRun:
    """Objects of a run in progress that its callbacks share."""

    schedule: Schedule
    state: RunState
    step: Step
    meter: Meter
    progress: Progress
    stop: StopSignals


class StepCallback(Callback):  # type: ignore[misc]
    """Callback that times and reports each step, saves periodically, and stops on a signal or a non-finite loss.

    Reading the loss waits for the device, so the times include all computation. `save()` writes a checkpoint.
    `explain(problem, first, last, element)` describes the batches of steps first..last for an error message.
    """

    def __init__(self, run: ActiveRun, save: Callable[[], None], explain: Callable[[str, int, int, Any], str]) -> None:
        super().__init__()
        self.run = run
        self.save = save
        self.explain = explain
        self.entered = False

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        """Start the clock of the epoch."""
        run, state = self.run, self.run.state
        if state.step % run.schedule.steps == 0 or not self.entered:  # else: a sink within an epoch
            self.enter_epoch(state.step // run.schedule.steps + 1)

    def enter_epoch(self, epoch: int) -> None:
        """Start the clock of `epoch`, and add the measurements of an earlier process in this epoch."""
        run, state = self.run, self.run.state
        run.progress.epoch_begin(epoch, run.schedule.epochs, run.schedule.steps)
        run.meter.epoch_begin(time.perf_counter())
        run.meter.resume(state.meter)
        beat(DATA, state.step + 1)
        self.entered = True

    def on_train_step_begin(self, run_context: RunContext) -> None:
        """Record that the batch has arrived."""
        self.run.meter.step_begin(time.perf_counter())
        meter = self.run.meter
        beat(STEP if meter.compiled else COMPILING, self.run.state.step + 1, meter.times[:2])

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Read the loss, report the step, save if due, and stop after a signal."""
        run, state = self.run, self.run.state
        params = run_context.original_args()
        loss = float(params.net_outputs.asnumpy())
        before = state.step
        # With data sinking, one call covers all steps since the previous call.
        state.step = params.cur_step_num
        run.meter.step_end(time.perf_counter(), loss, state.step - before)
        self._check_loss(loss, before + 1, params.train_dataset_element)
        run.progress.step(self._report(before // run.schedule.steps + 1, loss))
        state.meter = run.meter.measured()
        beat(DATA, state.step + 1, run.meter.times[:2])
        kill_points.kill_point("step", state.step)
        every = run.schedule.save_every
        due = every is not None and state.step // every > before // every
        if state.step % run.schedule.steps and (due or run.stop.signum is not None):  # else EpochCallback saves
            self.save()
            run.meter.saved(time.perf_counter())
            beat(DATA, state.step + 1, run.meter.times[:2])
            kill_points.kill_point("saved", state.step)
        if run.stop.signum is not None:
            run_context.request_stop()

    def _report(self, epoch: int, loss: float) -> StepReport:
        run, state = self.run, self.run.state
        return StepReport(
            epoch=epoch,
            step=run.meter.steps,
            loss=loss,
            images_per_s=run.meter.images_per_s,
            data_wait=run.meter.data_wait,
            lr=run.schedule.rate(state.step),
            skipped=int(run.step.skipped.asnumpy()) if run.step.scaled else 0,
            best=state.best_accuracy,
            left_s=run.schedule.left_s(state, run.meter.times),
        )

    def _check_loss(self, loss: float, first: int, element: Any) -> None:
        run, state = self.run, self.run.state
        if run.step.scaled:
            # The step skips an update that overflowed and lowers the loss scale. Only repeated overflows end the run.
            skipped = int(run.step.skipped_in_row.asnumpy())
            if skipped < run.schedule.max_overflows:
                return
            problem = f"{many(skipped, 'consecutive update')} overflowed, the last at step {state.step}"
            advice = overflow_advice(run.schedule.fixed_scale)
        elif math.isfinite(loss):
            return
        else:
            problem = f"the loss is {loss} at step {state.step}: the run diverged"
            advice = "try a lower --lr or more warm-up"
        batches = self.explain(problem, first, state.step, element)
        raise TrainerError(f"{problem}; {batches}; {advice}, and check these images")


class EpochCallback(Callback):  # type: ignore[misc]
    """Callback that evaluates after each epoch, appends a line of metrics, and saves the last and the best weights.

    `evaluate()` returns the scores on the val split, or None without a val split. `save(best)` writes a checkpoint; if
    `best` is True, the best weights are written first.
    """

    def __init__(
        self, run: ActiveRun, metrics: Path, evaluate: Callable[[], Scores | None], save: Callable[[bool], None]
    ) -> None:
        super().__init__()
        self.run = run
        self.metrics = metrics
        self.evaluate = evaluate
        self.save = save

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Evaluate and save. After a signal, only save."""
        run, state = self.run, self.run.state
        if state.step % run.schedule.steps:
            return  # a sink within an epoch, or a signal: StepCallback has saved
        self.finish_epoch()
        if not state.evaluated or run.schedule.is_over(state):
            run_context.request_stop()

    def finish_epoch(self) -> None:
        """Evaluate the trained epoch and save. The epoch is complete once the checkpoint is written."""
        run, state = self.run, self.run.state
        started = time.perf_counter()
        state.evaluated = False
        try:
            run.stop.check()
            due = run.schedule.evaluates(state.step // run.schedule.steps)
            scores = self.evaluate() if due else None
        except Interrupted:
            self.save(False)
            return
        report = self._report(scores, time.perf_counter() - started)
        best = due and state.improves(report.epoch, report.val_accuracy)
        state.add_times(*run.meter.times)
        state.evaluated, state.last, state.meter = True, asdict(report), {}
        self._write(report)
        kill_points.kill_point("epoch.metrics", state.step)
        self.save(best)
        kill_points.kill_point("epoch.saved", state.step)
        run.progress.epoch_end(report)
        if not run.meter.sunk and (slow := slow_rank(state)) is not None:
            run.progress.note(slow)
        if run.schedule.is_over(state) and report.epoch < run.schedule.epochs:
            run.progress.note(f"stopped: val accuracy has not improved since epoch {state.rise_epoch}")

    def _write(self, report: EpochReport) -> None:
        self.run.state.metrics_bytes = append_line(self.metrics, json.dumps(asdict(report)))

    def _report(self, scores: Scores | None, val_s: float) -> EpochReport:
        run, state = self.run, self.run.state
        return EpochReport(
            epoch=state.step // run.schedule.steps,
            step=state.step,
            loss=run.meter.loss,
            lr=run.schedule.rate(state.step),
            images_per_s=run.meter.rounded_images_per_s,
            data_wait=None if run.meter.data_wait is None else round(run.meter.data_wait, 4),
            skipped=int(run.step.skipped.asnumpy()),
            train_s=round(run.meter.elapsed_s, 3),
            val_s=round(val_s, 3),
            val_loss=None if scores is None else scores.loss,
            val_accuracy=None if scores is None else scores.headline,
        )
