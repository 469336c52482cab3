import pytest

from trainer.training.meter import Meter


def test_wait_and_throughput_leave_out_the_first_step_of_the_run() -> None:
    meter = Meter(batch_size=10)
    meter.epoch_begin(0.0)
    meter.step_begin(5.0)
    meter.step_end(60.0, loss=4.0)  # compiles
    assert (meter.images_per_s, meter.rounded_images_per_s, meter.data_wait) == (None, None, None)
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


def test_resumed_epoch_is_measured_as_one() -> None:
    first, second = Meter(batch_size=10), Meter(batch_size=10)
    first.epoch_begin(0.0)
    for begin, end, loss in ((1.0, 3.0, 5.0), (4.0, 6.0, 3.0)):
        first.step_begin(begin)
        first.step_end(end, loss)
    second.epoch_begin(100.0)
    second.resume(first.measured())
    second.step_begin(101.0)
    second.step_end(102.0, loss=1.0)
    assert (second.steps, second.loss, second.elapsed_s) == (3, 3.0, 8.0)
    assert second.data_wait == first.data_wait, "the first step of a process compiles"


def test_meter_without_steps_has_no_measurements() -> None:
    meter = Meter(batch_size=1)
    assert meter.measured() == {}
    meter.resume({})
    assert meter.steps == 0


def test_epoch_times_exclude_the_first_step_of_the_run() -> None:
    meter = Meter(batch_size=1)
    for begin, end in ((1.0, 9.0), (10.0, 13.0), (15.0, 16.0)):
        meter.step_begin(begin)
        meter.step_end(end, loss=1.0)
    assert meter.times == (3.0, 4.0, 2)


def test_data_wait_is_not_measured_with_data_sinking() -> None:
    meter = Meter(batch_size=4, sunk=True)
    for now in (0.0, 1.0, 2.0):
        meter.step_begin(now)
        meter.step_end(now + 1, loss=1.0, steps=5)
    assert meter.data_wait is None
    assert meter.images_per_s > 0


def test_time_of_a_checkpoint_is_no_wait_for_data() -> None:
    meter = Meter(4)
    meter.epoch_begin(0.0)
    for begin, end in ((1.0, 2.0), (3.0, 4.0)):
        meter.step_begin(begin)
        meter.step_end(end, 1.0)
    meter.saved(9.0)
    meter.step_begin(10.0)
    meter.step_end(11.0, 1.0)
    assert meter.times == (2.0, 2.0, 2)
    assert meter.elapsed_s == 6.0
