"""The clockwork of the measurements, on a clock of the tests' own."""

import pytest

from trainer.doctor.stages import (
    LEAST_TURN_S,
    LOOK_S,
    Measurement,
    Stage,
    Timer,
    measure,
    summed_up,
    take_turns,
    wait_for_rest,
)

pytestmark = pytest.mark.slow


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lap(clock: Clock, seconds: float = 1.0, warm: int = 1) -> Timer:
    return Timer(seconds, warm, clock, lambda: 2 * clock.now, lambda: None)


def work(one: Timer, clock: Clock, each_s: float, first_s: float = 0.0) -> Measurement:
    clock.now += first_s
    while True:
        clock.now += each_s
        if one.done(10):
            return one.turn()


def test_turn_begins_when_the_first_batch_is_there() -> None:
    clock = Clock()
    turn = work(lap(clock), clock, each_s=0.25, first_s=30.0)
    assert (turn.images, turn.wall_s, turn.cpu_s, turn.images_per_s) == (40, 1.0, 2.0, 40.0)


def test_slow_batches_make_a_turn_of_one() -> None:
    clock = Clock()
    turn = work(lap(clock), clock, each_s=7.0)
    assert (turn.images, turn.wall_s) == (10, 7.0)


def test_part_that_is_warm_from_the_start_counts_its_first_batch() -> None:
    clock = Clock()
    assert work(lap(clock, warm=0), clock, each_s=0.25).images == 40
    assert clock.now == 1.0


def test_what_a_part_prepares_is_in_no_turn() -> None:
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


def test_several_warm_batches_are_left_out_but_take_no_more_than_half_of_the_turn() -> None:
    clock = Clock()
    assert work(lap(clock, warm=3), clock, each_s=0.125).images == 80
    assert clock.now == 3 * 0.125 + 1.0
    clock = Clock()
    work(lap(clock, warm=100), clock, each_s=0.125)
    assert clock.now == 0.125 + 0.5 + 1.0


def test_a_wish_to_stop_is_looked_at_after_each_batch() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Timer(1.0, 1, Clock(), Clock(), stop).done(1)


def part(name: str) -> Stage:
    return Stage(name, lambda one: None)


def turns(count: int, seconds: float, overhead_s: float, *parts: Stage) -> tuple[list[tuple[str, float]], float]:
    """What was taken, with the seconds given to each turn; and when it was over."""
    clock, taken = Clock(), []

    def take(one: Stage, given_s: float) -> Measurement:
        taken.append((one.name, given_s))
        clock.now += given_s + overhead_s
        return Measurement(1, given_s, given_s, 0)

    take_turns(parts, count, seconds, take, clock)
    return taken, clock.now


def test_parts_take_turns_round_by_round_and_fill_the_time() -> None:
    taken, end = turns(2, 12.0, 0.0, part("a"), part("b"))
    assert taken == [("a", 3.0), ("b", 3.0), ("a", 3.0), ("b", 3.0)]
    assert end == 12.0


def test_time_that_turns_take_beside_their_own_is_made_up_for() -> None:
    taken, end = turns(4, 20.0, 1.0, part("a"), part("b"))
    assert len(taken) == 8
    assert 20.0 <= end <= 21.0


def test_first_round_is_whole_and_no_other_begins_that_would_be_half_too_late() -> None:
    taken, _ = turns(5, 1.0, 10.0, part("a"), part("b"))
    assert [name for name, _ in taken] == ["a", "b"]
    assert taken[1][1] == LEAST_TURN_S


def test_as_many_rounds_as_must_be_are_made_however_late() -> None:
    clock, taken = Clock(), []

    def take(one: Stage, given_s: float) -> Measurement:
        taken.append(one.name)
        clock.now += 10.0
        return Measurement(1, 1.0, 1.0, 0)

    take_turns([part("a"), part("b")], 5, 1.0, take, clock, least=2)
    assert taken == ["a", "b", "a", "b"]


def test_rounds_are_summed_up_as_medians() -> None:
    found = summed_up(
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


def test_queues_are_full_when_the_process_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, used = Clock(), iter([0.0, 0.05, 0.05, 0.09, 0.09, 0.0901])
    monkeypatch.setattr("time.monotonic", clock)
    monkeypatch.setattr("time.process_time", lambda: next(used))
    monkeypatch.setattr("time.sleep", lambda seconds: setattr(clock, "now", clock.now + seconds))
    wait_for_rest(10.0)
    assert clock.now == pytest.approx(3 * LOOK_S)


def test_process_that_never_rests_is_waited_for_no_longer_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("time.monotonic", clock)
    monkeypatch.setattr("time.process_time", clock)
    monkeypatch.setattr("time.sleep", lambda seconds: setattr(clock, "now", clock.now + seconds))
    wait_for_rest(1.0)
    assert clock.now == pytest.approx(1.0, abs=LOOK_S)
