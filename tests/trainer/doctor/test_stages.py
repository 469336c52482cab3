"""Rounds and timers of the measurements, with a clock that the tests advance."""

import pytest

from trainer.doctor.stages import (
    CHECK_S,
    LEAST_TURN_S,
    Measurement,
    Stage,
    Timer,
    measure,
    measure_in_rounds,
    medians,
    wait_until_idle,
)

pytestmark = pytest.mark.slow


class Clock:
    """A clock that tests advance."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def timer(clock: Clock, seconds: float = 1.0, warm: int = 1) -> Timer:
    return Timer(seconds, warm, clock, lambda: 2 * clock.now, lambda: None)


def work(one: Timer, clock: Clock, each_s: float, first_s: float = 0.0) -> Measurement:
    clock.now += first_s
    while True:
        clock.now += each_s
        if one.done(10):
            return one.measurement()


def test_measurement_starts_with_the_first_batch() -> None:
    clock = Clock()
    turn = work(timer(clock), clock, each_s=0.25, first_s=30.0)
    assert (turn.images, turn.wall_s, turn.cpu_s, turn.images_per_s) == (40, 1.0, 2.0, 40.0)


def test_slow_batches_give_a_measurement_of_one_batch() -> None:
    clock = Clock()
    turn = work(timer(clock), clock, each_s=7.0)
    assert (turn.images, turn.wall_s) == (10, 7.0)


def test_stage_that_is_warm_from_the_start_counts_its_first_batch() -> None:
    clock = Clock()
    assert work(timer(clock, warm=0), clock, each_s=0.25).images == 40
    assert clock.now == 1.0


def test_preparation_is_not_measured() -> None:
    clock = Clock()

    def prepare() -> None:
        clock.now += 100.0

    def once(one: Timer) -> None:
        clock.now += 0.5
        assert not one.done(4)
        clock.now += 0.5
        assert one.done(4)

    turn = measure(Stage("x", once, warm=0, prepare=prepare), 1.0, lambda: None, clock)
    assert (turn.images, turn.wall_s) == (8, 1.0)


def test_warm_up_takes_at_most_half_of_the_measurement() -> None:
    clock = Clock()
    assert work(timer(clock, warm=3), clock, each_s=0.125).images == 80
    assert clock.now == 3 * 0.125 + 1.0
    clock = Clock()
    work(timer(clock, warm=100), clock, each_s=0.125)
    assert clock.now == 0.125 + 0.5 + 1.0


def test_check_is_called_after_each_batch() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Timer(1.0, 1, Clock(), Clock(), stop).done(1)


def part(name: str) -> Stage:
    return Stage(name, lambda one: None)


def turns(count: int, seconds: float, overhead_s: float, *parts: Stage) -> tuple[list[tuple[str, float]], float]:
    """The turns with their seconds, and the time at the end."""
    clock, taken = Clock(), []

    def take(one: Stage, given_s: float) -> Measurement:
        taken.append((one.name, given_s))
        clock.now += given_s + overhead_s
        return Measurement(1, given_s, given_s, 0)

    measure_in_rounds(parts, count, seconds, take, clock)
    return taken, clock.now


def test_rounds_are_interleaved_and_fill_the_time() -> None:
    taken, end = turns(2, 12.0, 0.0, part("a"), part("b"))
    assert taken == [("a", 3.0), ("b", 3.0), ("a", 3.0), ("b", 3.0)]
    assert end == 12.0


def test_overhead_of_measurements_is_subtracted() -> None:
    taken, end = turns(4, 20.0, 1.0, part("a"), part("b"))
    assert len(taken) == 8
    assert 20.0 <= end <= 21.0


def test_first_round_is_complete_and_no_round_starts_late() -> None:
    taken, _ = turns(5, 1.0, 10.0, part("a"), part("b"))
    assert [name for name, _ in taken] == ["a", "b"]
    assert taken[1][1] == LEAST_TURN_S


def test_minimum_number_of_rounds_is_measured_even_without_time() -> None:
    clock, taken = Clock(), []

    def take(one: Stage, given_s: float) -> Measurement:
        taken.append(one.name)
        clock.now += 10.0
        return Measurement(1, 1.0, 1.0, 0)

    measure_in_rounds([part("a"), part("b")], 5, 1.0, take, clock, least=2)
    assert taken == ["a", "b", "a", "b"]


def test_rounds_become_medians() -> None:
    found = medians(
        {
            "feed": [
                Measurement(10, 1.0, 1.5, 5, 0.1),
                Measurement(90, 1.0, 1.5, 9, 0.5),
                Measurement(20, 1.0, 3.0, 7, 0.2),
            ]
        }
    )
    feed = found["feed"]
    assert (feed.images_per_s, feed.lowest, feed.highest, feed.turns) == (20.0, 10.0, 90.0, 3)
    assert (feed.cores, feed.memory_bytes, feed.data_wait) == (1.5, 9, 0.2)


def test_queues_are_full_when_the_process_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, used = Clock(), iter([0.0, 0.05, 0.05, 0.09, 0.09, 0.0901])
    monkeypatch.setattr("time.monotonic", clock)
    monkeypatch.setattr("time.process_time", lambda: next(used))
    monkeypatch.setattr("time.sleep", lambda seconds: setattr(clock, "now", clock.now + seconds))
    wait_until_idle(10.0)
    assert clock.now == pytest.approx(3 * CHECK_S)


def test_waiting_for_a_busy_process_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("time.monotonic", clock)
    monkeypatch.setattr("time.process_time", clock)
    monkeypatch.setattr("time.sleep", lambda seconds: setattr(clock, "now", clock.now + seconds))
    wait_until_idle(1.0)
    assert clock.now == pytest.approx(1.0, abs=CHECK_S)
