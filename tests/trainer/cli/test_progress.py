import io

import pytest

from trainer.cli.progress import Bar, Lines, decimals, duration, fitting, make_progress
from trainer.decisions import Decision
from trainer.training.progress import EpochReport, StepReport

EPOCH = EpochReport(2, 8, 0.5, 0.01, 123.4, 0.25, 0, 1.0, 0.5, 0.75, 0.875)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_come_every_n_steps_and_at_the_end_of_an_epoch() -> None:
    stream = io.StringIO()
    progress = make_progress(stream, every=2)
    progress.epoch_begin(2, 3, 4)
    for step in range(1, 5):
        progress.step(StepReport(2, step, 0.5, 100.0, 0.1))
    progress.epoch_end(EPOCH)
    assert stream.getvalue().splitlines() == [
        "epoch 2/3  step 2/4  loss 0.5000  100 images/s  data wait 10%",
        "epoch 2/3  loss 0.5000  123 images/s  data wait 25%  val loss 0.7500  val accuracy 87.50%",
    ]


def test_terminal_gets_a_bar_that_the_epochs_line_replaces() -> None:
    stream = Terminal()
    progress = make_progress(stream, every=50)
    assert isinstance(progress, Bar)
    progress.epoch_begin(2, 3, 4)
    progress.step(StepReport(2, 4, 0.5, 100.0, None))
    progress.epoch_end(EPOCH)
    assert "epoch 2/3 |" in stream.getvalue()
    assert stream.getvalue().splitlines()[-1].endswith("val accuracy 87.50%")


@pytest.mark.parametrize(("skipped", "accuracy"), [(3, None), (0, 0.5)])
def test_skipped_updates_and_val_are_shown_when_there_are_any(skipped: int, accuracy: float | None) -> None:
    stream = io.StringIO()
    report = EpochReport(1, 1, 1.0, 0.1, 1.0, 0.0, skipped, 1.0, 0.0, accuracy, accuracy)
    Lines(stream, 1).epoch_end(report)
    assert ("3 updates skipped" in stream.getvalue()) is (skipped > 0)
    assert ("val accuracy" in stream.getvalue()) is (accuracy is not None)


def test_step_line_shows_rate_skipped_updates_best_and_time_left() -> None:
    stream = io.StringIO()
    progress = make_progress(stream, every=1)
    progress.epoch_begin(2, 3, 4)
    progress.step(StepReport(2, 1, 0.5, 100.0, 0.1, lr=0.0012345, skipped=3, best=0.875, left_s=3725.0))
    progress.step(StepReport(2, 2, 0.5, None, None, lr=0.1, skipped=1))
    assert stream.getvalue().splitlines() == [
        "epoch 2/3  step 1/4  loss 0.5000  lr 0.00123  100 images/s  data wait 10%  3 updates skipped  best 87.50%"
        "  1:02:05 left",
        "epoch 2/3  step 2/4  loss 0.5000  lr 0.1  1 update skipped",
    ]


def test_large_losses_have_four_digits() -> None:
    assert [decimals(value) for value in (9999.99994, 1e4, -2.5e30, float("inf"))] == [
        "9999.9999",
        "1e+04",
        "-2.5e+30",
        "inf",
    ]


def test_durations_have_hours_only_when_there_are_any() -> None:
    assert [duration(seconds) for seconds in (0.4, 59.6, 3599.0, 3600.0, 360000.0)] == [
        "0:00",
        "1:00",
        "59:59",
        "1:00:00",
        "100:00:00",
    ]


def test_measures_that_do_not_fit_are_left_out_by_rank_and_the_rest_keep_their_order() -> None:
    measures = [(0, "loss"), (2, "wait"), (1, "left")]
    assert [fitting(measures, width) for width in (None, 16, 15, 10, 9, 4, 3)] == [
        "loss  wait  left",
        "loss  wait  left",
        "loss  left",
        "loss  left",
        "loss",
        "loss",
        "",
    ]


def test_settings_are_those_that_differ_from_plain_defaults_unless_all_are_wanted() -> None:
    decisions = [Decision("mode", "default", "graph", "speed"), Decision("lr", "1", "1", "requested")]
    brief, whole = io.StringIO(), io.StringIO()
    Lines(brief, 1).settings(decisions)
    Lines(whole, 1, verbose=True).settings(decisions)
    assert brief.getvalue().splitlines() == [
        "setting  requested  in effect  why",
        "lr       1          1          requested",
        "plain defaults, shown with -v: 1 more setting",
    ]
    assert [line.split()[0] for line in whole.getvalue().splitlines()] == ["setting", "mode", "lr"]
