"""What happens around the steps, in MindSpore's callback form: report, stop on a signal, evaluate and save."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mindspore.train import Callback, RunContext

from trainer.errors import Interrupted, TrainerError
from trainer.meter import Meter
from trainer.objective import Scores
from trainer.progress import EpochReport, Progress, StepReport
from trainer.signals import StopSignals

MAX_LOST_LOSSES = 20  # with a loss scale: so many losses in a row that are not finite are no passing overflow


class Watch(Callback):  # type: ignore[misc]
    """Times each step, reports it, and ends the run when the loss is lost or a signal came.

    Reading the loss waits for the device, which makes the times true. `scaled` allows for passing overflows.
    """

    def __init__(self, meter: Meter, progress: Progress, stop: StopSignals, epochs: int, scaled: bool) -> None:
        super().__init__()
        self.meter = meter
        self.progress = progress
        self.stop = stop
        self.epochs = epochs
        self.allowed = MAX_LOST_LOSSES if scaled else 1
        self.lost = 0
        self.steps_before = 0

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        """Start the epoch's clock."""
        params = run_context.original_args()
        self.progress.epoch_begin(params.cur_epoch_num, self.epochs, params.batch_num)
        self.meter.epoch_begin(time.perf_counter())

    def on_train_step_begin(self, run_context: RunContext) -> None:
        """Note that the batch has come."""
        self.meter.step_begin(time.perf_counter())

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Read the loss, report, and look whether to stop."""
        params = run_context.original_args()
        loss = float(params.net_outputs.asnumpy())
        # With sink one callback stands for all steps since the last one.
        self.meter.step_end(time.perf_counter(), loss, params.cur_step_num - self.steps_before)
        self.steps_before = params.cur_step_num
        self._keep_loss(loss, params.cur_step_num)
        wait = self.meter.data_wait if params.cur_epoch_num > 1 else None
        self.progress.step(StepReport(params.cur_epoch_num, self.meter.steps, loss, self.meter.images_per_s, wait))
        if self.stop.signum is not None:
            run_context.request_stop()

    def _keep_loss(self, loss: float, step: int) -> None:
        self.lost = 0 if math.isfinite(loss) else self.lost + 1
        if self.lost >= self.allowed:
            raise TrainerError(f"the loss is {loss} at step {step}: the run diverged; try a lower --lr or more warm-up")


@dataclass
class Best:
    """The highest val accuracy so far and its epoch; without a val split the last epoch counts as best."""

    epoch: int = 0
    accuracy: float | None = None

    def improves(self, epoch: int, accuracy: float | None) -> bool:
        """Take note of an epoch; true when it is the best. Of equals the later one is kept: it has seen more."""
        if accuracy is None or self.accuracy is None or accuracy >= self.accuracy:
            self.epoch, self.accuracy = epoch, accuracy
            return True
        return False


class EpochEnd(Callback):  # type: ignore[misc]
    """After each epoch: evaluate, write a line of metrics, keep the last and the best weights.

    `evaluate` scores the val split or returns None when there is none; `save(epoch, step, accuracy, best)` writes.
    """

    def __init__(
        self,
        meter: Meter,
        progress: Progress,
        stop: StopSignals,
        rates: list[float],
        metrics: Path,
        evaluate: Callable[[], Scores | None],
        save: Callable[[int, int, float | None, bool], None],
    ) -> None:
        super().__init__()
        self.meter = meter
        self.progress = progress
        self.stop = stop
        self.rates = rates
        self.metrics = metrics
        self.evaluate = evaluate
        self.save = save
        self.best = Best()
        self.reports: list[EpochReport] = []

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Evaluate and save; only save when a signal came before or meanwhile."""
        params = run_context.original_args()
        began = time.perf_counter()
        try:
            self.stop.check()
            scores = self.evaluate()
        except Interrupted:
            self.save(params.cur_epoch_num, params.cur_step_num, None, False)
            run_context.request_stop()
            return
        report = self._report(params, scores, time.perf_counter() - began)
        best = self.best.improves(report.epoch, report.val_accuracy)
        self.save(report.epoch, report.step, report.val_accuracy, best)
        self.reports.append(report)
        with self.metrics.open("a") as file:
            file.write(json.dumps(asdict(report)) + "\n")
        self.progress.epoch_end(report)

    def _report(self, params: Any, scores: Scores | None, val_s: float) -> EpochReport:
        return EpochReport(
            epoch=params.cur_epoch_num,
            step=params.cur_step_num,
            loss=self.meter.loss,
            lr=self.rates[params.cur_step_num - 1],
            images_per_s=round(self.meter.images_per_s, 1),
            data_wait=round(self.meter.data_wait, 4),
            skipped=int(params.train_network.skipped.asnumpy()),
            train_s=round(self.meter.elapsed_s, 3),
            val_s=round(val_s, 3),
            val_loss=None if scores is None else scores.loss,
            val_accuracy=None if scores is None else scores.accuracy,
        )
