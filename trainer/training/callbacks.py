"""What happens around the steps, in MindSpore's callback form: report, stop on a signal, evaluate and save.

With a sink size each sink is an epoch to MindSpore. So steps are counted in RunState, and an epoch is over when its
steps are done.
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
from trainer.device.precision import overflow_advice
from trainer.errors import Interrupted, TrainerError
from trainer.nn.tasks.classification import Scores
from trainer.runs import kill_points
from trainer.runs.folder import append_line
from trainer.runs.state import RunState
from trainer.signals import StopSignals
from trainer.training.meter import Meter
from trainer.training.progress import EpochReport, Progress, StepReport

ENOUGH_STEPS = 20  # timed in an epoch before its speed alone tells how long the run will last


@dataclass(frozen=True)
class Schedule:
    """The fixed course of a run: `steps` batches an epoch, the rate of each update, batches an update, and options.

    `fixed_scale` is the loss scale when it is a number, None when it is dynamic or the loss is not scaled.
    """

    epochs: int
    steps: int
    rates: list[float]
    accumulate: int = 1
    patience: int | None = None
    save_every: int | None = None
    max_overflows: int = 20
    fixed_scale: float | None = None

    def is_over(self, state: RunState) -> bool:
        """Whether nothing is left to do."""
        return state.is_over(self.epochs * self.steps, self.steps, self.patience)

    def rate(self, step: int) -> float:
        """The learning rate of the last update up to `step`."""
        return self.rates[max(step // self.accumulate, 1) - 1]

    def left_s(self, state: RunState, times: tuple[float, float, int]) -> float | None:
        """Seconds until the last epoch is evaluated, None before a step was timed.

        `times` are the current epoch's wait, work and timed steps. Its speed counts alone once enough of its steps were
        timed; before that the run's earlier epochs count too, since an epoch's first batch takes long to come.
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
    """The counters of the training cell that callbacks look at."""

    scaled: bool
    skipped: Any
    skipped_in_row: Any


class StepNumbers(Callback):  # type: ignore[misc]
    """Has MindSpore count steps and epochs from the run's start; to stand before all other callbacks.

    MindSpore counts from each call of Model.train, of which a resumed run makes one and a run on CPU one per epoch.
    """

    def __init__(self, course: Schedule, state: RunState, per_epoch: bool) -> None:
        super().__init__()
        self.course = course
        self.state = state
        self.per_epoch = per_epoch

    def on_train_begin(self, run_context: RunContext) -> None:
        """Go on with the step number."""
        run_context.original_args().cur_step_num = self.state.step

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        """Go on with the epoch number; where one call trains several epochs, MindSpore's own is right."""
        if self.per_epoch:
            run_context.original_args().cur_epoch_num = self.state.step // self.course.steps + 1


class StepCallback(Callback):  # type: ignore[misc]
    """Times each step, reports it, saves every so often, and ends the run when the loss is lost or a signal came.

    Reading the loss waits for the device, which makes the times true. `save()` stores the run as `state` has it.
    `explain(what, first, last, element)` describes the batches of an epoch's steps, for an error.
    """

    def __init__(
        self,
        course: Schedule,
        state: RunState,
        step: Step,
        meter: Meter,
        progress: Progress,
        stop: StopSignals,
        save: Callable[[], None],
        explain: Callable[[str, int, int, Any], str],
    ) -> None:
        super().__init__()
        self.course = course
        self.state = state
        self.step = step
        self.meter = meter
        self.progress = progress
        self.stop = stop
        self.save = save
        self.explain = explain
        self.entered = False

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        """Start the epoch's clock, or let it go on in a resumed one."""
        if self.state.step % self.course.steps == 0 or not self.entered:  # else only a sink, within an epoch
            self.enter_epoch(self.state.step // self.course.steps + 1)

    def enter_epoch(self, epoch: int) -> None:
        """Let the clock run; with what an earlier process measured of this epoch, if it did."""
        self.progress.epoch_begin(epoch, self.course.epochs, self.course.steps)
        self.meter.epoch_begin(time.perf_counter())
        self.meter.go_on(self.state.meter)
        self.entered = True

    def on_train_step_begin(self, run_context: RunContext) -> None:
        """Note that the batch has come."""
        self.meter.step_begin(time.perf_counter())

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Read the loss, report, save when it is time, and look whether to stop."""
        params = run_context.original_args()
        loss = float(params.net_outputs.asnumpy())
        before = self.state.step
        # With sink one callback stands for all steps since the last one.
        self.state.step = params.cur_step_num
        self.meter.step_end(time.perf_counter(), loss, self.state.step - before)
        self._keep_loss(loss, before + 1, params.train_dataset_element)
        self.progress.step(self._report(before // self.course.steps + 1, loss))
        self.state.meter = self.meter.measured()
        kill_points.kill_point("step", self.state.step)
        every = self.course.save_every
        due = every is not None and self.state.step // every > before // every
        if self.state.step % self.course.steps and (due or self.stop.signum is not None):  # else EpochEnd saves
            self.save()
            kill_points.kill_point("saved", self.state.step)
        if self.stop.signum is not None:
            run_context.request_stop()

    def _report(self, epoch: int, loss: float) -> StepReport:
        return StepReport(
            epoch=epoch,
            step=self.meter.steps,
            loss=loss,
            images_per_s=self.meter.images_per_s,
            data_wait=self.meter.data_wait,
            lr=self.course.rate(self.state.step),
            skipped=int(self.step.skipped.asnumpy()) if self.step.scaled else 0,
            best=self.state.best_accuracy,
            left_s=self.course.left_s(self.state, self.meter.times),
        )

    def _keep_loss(self, loss: float, first: int, element: Any) -> None:
        if self.step.scaled:
            # The step leaves out an update that overflowed, and the scale follows: only many in a row are too many.
            lost = int(self.step.skipped_in_row.asnumpy()) * self.course.accumulate
            if lost < self.course.max_overflows * self.course.accumulate:
                return
            updates = many(lost // self.course.accumulate, "update")
            what = f"{updates} in a row overflowed, the last at step {self.state.step}"
            advice = overflow_advice(self.course.fixed_scale)
        elif math.isfinite(loss):
            return
        else:
            what = f"the loss is {loss} at step {self.state.step}: the run diverged"
            advice = "try a lower --lr or more warm-up"
        batches = self.explain(what, first, self.state.step, element)
        raise TrainerError(f"{what}; {batches}; {advice}, and look at these images")


class EpochCallback(Callback):  # type: ignore[misc]
    """After each epoch: evaluate, write a line of metrics, keep the last and the best weights.

    `evaluate` scores the val split or returns None when there is none; `save()` stores the run as `state` has it, with
    the weights as the best ones before that when its argument is true.
    """

    def __init__(
        self,
        course: Schedule,
        state: RunState,
        step: Step,
        meter: Meter,
        progress: Progress,
        stop: StopSignals,
        metrics: Path,
        evaluate: Callable[[], Scores | None],
        save: Callable[[bool], None],
    ) -> None:
        super().__init__()
        self.course = course
        self.state = state
        self.step = step
        self.meter = meter
        self.progress = progress
        self.stop = stop
        self.metrics = metrics
        self.evaluate = evaluate
        self.save = save

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Evaluate and save; only save when a signal came before or meanwhile."""
        if self.state.step % self.course.steps:
            return  # a sink within an epoch, or a signal: Watch has saved
        self.finish_epoch()
        if not self.state.evaluated or self.course.is_over(self.state):
            run_context.request_stop()

    def finish_epoch(self) -> None:
        """Evaluate the epoch that is trained to its end, and save. The last write makes it count."""
        began = time.perf_counter()
        self.state.evaluated = False
        try:
            self.stop.check()
            scores = self.evaluate()
        except Interrupted:
            self.save(False)
            return
        report = self._report(scores, time.perf_counter() - began)
        best = self.state.improves(report.epoch, report.val_accuracy)
        self.state.add_times(*self.meter.times)
        self.state.evaluated, self.state.last, self.state.meter = True, asdict(report), {}
        self._write(report)
        kill_points.kill_point("epoch.metrics", self.state.step)
        self.save(best)
        kill_points.kill_point("epoch.saved", self.state.step)
        self.progress.epoch_end(report)
        if self.course.is_over(self.state) and report.epoch < self.course.epochs:
            self.progress.note(f"stopped: val accuracy has not risen since epoch {self.state.rise_epoch}")

    def _write(self, report: EpochReport) -> None:
        self.state.metrics_bytes = append_line(self.metrics, json.dumps(asdict(report)))

    def _report(self, scores: Scores | None, val_s: float) -> EpochReport:
        return EpochReport(
            epoch=self.state.step // self.course.steps,
            step=self.state.step,
            loss=self.meter.loss,
            lr=self.course.rate(self.state.step),
            images_per_s=self.meter.rounded_images_per_s,
            data_wait=None if self.meter.data_wait is None else round(self.meter.data_wait, 4),
            skipped=int(self.step.skipped.asnumpy()),
            train_s=round(self.meter.elapsed_s, 3),
            val_s=round(val_s, 3),
            val_loss=None if scores is None else scores.loss,
            val_accuracy=None if scores is None else scores.accuracy,
        )
