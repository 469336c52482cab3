import io

import pytest

from trainer.progress import Bar, EpochReport, Lines, StepReport, make_progress

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
    assert "epoch 2/3   0%" in stream.getvalue()
    assert stream.getvalue().splitlines()[-1].endswith("val accuracy 87.50%")


@pytest.mark.parametrize(("skipped", "accuracy"), [(3, None), (0, 0.5)])
def test_skipped_updates_and_val_are_shown_when_there_are_any(skipped: int, accuracy: float | None) -> None:
    stream = io.StringIO()
    report = EpochReport(1, 1, 1.0, 0.1, 1.0, 0.0, skipped, 1.0, 0.0, accuracy, accuracy)
    Lines(stream, 1).epoch_end(report)
    assert ("3 updates skipped" in stream.getvalue()) is (skipped > 0)
    assert ("val accuracy" in stream.getvalue()) is (accuracy is not None)
