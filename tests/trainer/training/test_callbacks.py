"""The callbacks as MindSpore would call them on Ascend, where one call stands for a whole sink."""

import io
import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mindspore import Tensor

from trainer.cli.progress import Lines
from trainer.errors import TrainerError
from trainer.nn.tasks.classification import ClassScores
from trainer.runs.state import RunState
from trainer.signals import StopSignals
from trainer.training.callbacks import ActiveRun, EpochCallback, Schedule, StepCallback, StepNumbers
from trainer.training.meter import Meter

pytestmark = pytest.mark.slow


class Run:
    """A run of 3 epochs of 6 steps, called back as Model.train does it."""

    def __init__(self, folder: Path, state: RunState | None = None, scaled: bool = False, **schedule: Any) -> None:
        self.state = state or RunState()
        self.saved: list[tuple[int, bool]] = []
        self.stop = StopSignals()
        self.explained: list[tuple[int, int]] = []
        self.schedule = Schedule(epochs=3, steps=6, rates=[0.1] * 18, **schedule)
        self.skipped = Tensor(np.int32(0))
        step: Any = SimpleNamespace(scaled=scaled, skipped=self.skipped, skipped_in_row=Tensor(np.int32(2)))
        meter, self.stream = Meter(4), io.StringIO()
        active = ActiveRun(self.schedule, self.state, step, meter, Lines(self.stream, 1), self.stop)
        self.on_step = StepCallback(active, self.save, self.explain)
        self.metrics = folder / "metrics.jsonl"
        scores = lambda: ClassScores(10, 1.0, 5)  # noqa: E731
        self.on_epoch = EpochCallback(active, self.metrics, scores, self.save)
        self.numbers = StepNumbers(self.schedule, self.state, per_epoch=False)
        self.stopping = False

    def save(self, best: bool = False) -> None:
        self.saved.append((self.state.step, best))

    def explain(self, what: str, first: int, last: int, element: Any) -> str:
        self.explained.append((first, last))
        return "the batch"

    def request_stop(self) -> None:
        self.stopping = True

    def sinks(self, size: int, first: int, last: int, losses: dict[int, float] | None = None) -> None:
        """From sink `first` to sink `last`, each an epoch to MindSpore, whose count of steps starts again at 0."""
        params: Any = SimpleNamespace(cur_step_num=0, train_dataset_element=())
        context: Any = SimpleNamespace(original_args=lambda: params, request_stop=self.request_stop)
        self.numbers.on_train_begin(context)
        for sink in range(first, last + 1):
            self.on_step.on_train_epoch_begin(context)
            params.cur_step_num += size
            params.net_outputs = Tensor(np.float32((losses or {}).get(sink, 1.0)))
            self.on_step.on_train_step_begin(context)
            self.on_step.on_train_step_end(context)
            self.on_epoch.on_train_epoch_end(context)
            if self.stopping:
                return


def test_epochs_are_distinguished_from_sinks(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.sinks(3, 1, 6)
    assert run.saved == [(6, True), (12, True), (18, True)]
    assert [json.loads(line)["step"] for line in run.metrics.read_text().splitlines()] == [6, 12, 18]
    assert run.stream.getvalue().splitlines()[0].startswith("epoch 1/3  step 3/6")
    assert run.stopping, "nothing is left to do"


def test_every_line_has_the_data_wait_after_the_first_timed_step(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.sinks(1, 1, 6)
    told = run.stream.getvalue().splitlines()
    assert ["data wait" in line for line in told] == [False, True, True, True, True, True]
    assert ["images/s" in line for line in told] == [False, True, True, True, True, True]
    assert ["left" in line for line in told] == [False, True, True, True, True, False], "the last is the epoch's"


def test_times_of_whole_epochs_are_added_up_over_the_run(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.sinks(1, 1, 18)
    assert run.state.timed_steps == 17, "the first step compiles"
    assert run.state.work_s > 0
    assert run.state.wait_s > 0


def test_resumed_run_counts_on_from_its_step(tmp_path: Path) -> None:
    run = Run(tmp_path, RunState(step=9, meter={}, best_epoch=1, best_accuracy=0.9))
    run.sinks(3, 4, 6)
    assert run.saved == [(12, False), (18, False)]
    assert run.state.best_epoch == 1


def test_checkpoint_is_saved_at_the_first_sink_call_that_reaches_its_step(tmp_path: Path) -> None:
    run = Run(tmp_path, save_every=4)
    run.sinks(1, 1, 12)
    assert [step for step, _ in run.saved] == [4, 6, 8, 12]
    sunk = Run(tmp_path, save_every=4)
    sunk.sinks(3, 1, 4)
    assert [step for step, _ in sunk.saved] == [6, 9, 12]


@pytest.mark.parametrize("sink", [1, 2])
def test_signal_saves_once_at_the_end_of_the_sink_call(sink: int, tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.sinks(3, 1, sink - 1)
    run.stop.signum = signal.SIGTERM
    run.sinks(3, sink, sink + 2)
    assert run.saved == [(3 * sink, False)]
    assert run.stopping
    assert run.state.evaluated is (sink == 1)


def test_non_finite_loss_reports_all_steps_of_the_sink(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with pytest.raises(TrainerError, match="the loss is nan at step 6: the run diverged; the batch; try a lower --lr"):
        run.sinks(3, 1, 2, {2: float("nan")})
    assert run.explained == [(4, 6)]


def test_too_many_consecutive_overflows_end_the_run_and_fewer_do_not(tmp_path: Path) -> None:
    Run(tmp_path, scaled=True, max_overflows=3).sinks(3, 1, 2)
    with pytest.raises(TrainerError, match="2 consecutive updates overflowed, the last at step 3; the batch"):
        Run(tmp_path, scaled=True, max_overflows=2).sinks(3, 1, 2)


def test_overflow_under_a_fixed_scale_advises_a_lower_scale(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match=r"; try a --loss-scale below 1e\+30, or dynamic"):
        Run(tmp_path, scaled=True, max_overflows=2, fixed_scale=1e30).sinks(3, 1, 2)
    with pytest.raises(TrainerError, match="; the scale was halved each time; try a lower --lr"):
        Run(tmp_path, scaled=True, max_overflows=2).sinks(3, 1, 2)


def test_step_lines_show_skipped_updates_and_the_best_accuracy(tmp_path: Path) -> None:
    run = Run(tmp_path, scaled=True)
    run.skipped.assign_value(Tensor(np.int32(4)))
    run.sinks(1, 1, 8)
    told = [line for line in run.stream.getvalue().splitlines() if "  step " in line]
    assert all("  lr 0.1  " in line and "  4 updates skipped" in line for line in told)
    assert ["best 50.00%" in line for line in told] == [False] * 5 + [True] * 2


def test_time_left_counts_training_and_evaluations_that_are_still_to_come() -> None:
    schedule = Schedule(epochs=3, steps=10, rates=[0.1] * 30)
    state = RunState(step=11, wait_s=2.0, work_s=8.0, timed_steps=10, last={"val_s": 4.0})
    assert schedule.left_s(state, (9.0, 0.0, 1)) == pytest.approx(19 * 19 / 11 + 2 * 4.0)
    assert schedule.left_s(state, (10.0, 10.0, 40)) == pytest.approx(19 * 0.5 + 2 * 4.0), "this epoch's speed alone"
    assert schedule.left_s(RunState(step=10, last={"val_s": 4.0}), (0.0, 1.0, 1)) == pytest.approx(20 + 3 * 4.0)
    assert schedule.left_s(RunState(step=1), (0.0, 0.0, 0)) is None


def test_mindspore_counts_epochs_from_the_start_of_the_run_if_each_has_a_pipeline(tmp_path: Path) -> None:
    params: Any = SimpleNamespace(cur_step_num=0, cur_epoch_num=1)
    context: Any = SimpleNamespace(original_args=lambda: params)
    numbers = StepNumbers(Run(tmp_path).schedule, RunState(step=13), per_epoch=True)
    numbers.on_train_begin(context)
    numbers.on_train_epoch_begin(context)
    assert (params.cur_step_num, params.cur_epoch_num) == (13, 3)
