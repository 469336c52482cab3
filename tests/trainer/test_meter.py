import pytest

from trainer.meter import Meter


def test_wait_and_throughput_leave_out_the_first_step_of_the_run() -> None:
    meter = Meter(batch_size=10)
    meter.epoch_begin(0.0)
    meter.step_begin(5.0)
    meter.step_end(60.0, loss=4.0)  # compiles
    assert (meter.images_per_s, meter.data_wait) == (0.0, 0.0)
    meter.step_begin(61.0)
    meter.step_end(64.0, loss=2.0)
    assert meter.images_per_s == pytest.approx(10 / 4)
    assert meter.data_wait == pytest.approx(1 / 4)
    assert meter.loss == 3.0
    assert meter.elapsed_s == 64.0


def test_wait_for_the_first_batch_of_a_later_epoch_counts_but_not_the_time_between_epochs() -> None:
    meter = Meter(batch_size=1)
    meter.step_begin(0.0)
    meter.step_end(1.0, loss=1.0)
    meter.epoch_begin(100.0)
    meter.step_begin(101.0)
    meter.step_end(102.0, loss=1.0)
    assert meter.data_wait == 0.5
    assert meter.steps == 1


def test_a_sink_counts_all_its_steps() -> None:
    meter = Meter(batch_size=4)
    meter.step_begin(0.0)
    meter.step_end(1.0, loss=1.0, steps=5)
    meter.epoch_begin(1.0)
    meter.step_begin(1.0)
    meter.step_end(3.0, loss=1.0, steps=5)
    assert (meter.steps, meter.images_per_s) == (5, 10.0)
