import pytest

from trainer.doctor.verdict import Rates, feed_parts, judge
from trainer.training.meter import BALANCED, COMPUTE, FEED, judge_wait


def rates(feed: float = 200.0, step: float = 400.0, **more: float) -> Rates:
    given = {"read": 4000.0, "decode": 400.0, "augment": 250.0, "feed_cpu_s": 0.001, "step_cpu_s": 0.001} | more
    return Rates(feed=feed, step=step, cores=8, **given)


@pytest.mark.parametrize(
    ("feed", "step", "bound", "ratio"),
    [(200, 400, FEED, 2.0), (400, 200, COMPUTE, 2.0), (200, 219, BALANCED, 1.095), (219, 200, BALANCED, 1.095)],
)
def test_slower_of_feed_and_step_is_the_bottleneck_unless_they_are_within_a_tenth(
    feed: float, step: float, bound: str, ratio: float
) -> None:
    verdict = judge(rates(feed, step))
    assert (verdict.bound, verdict.ratio) == (bound, pytest.approx(ratio))
    assert (verdict.limit, verdict.shared) == (min(feed, step), False)


def test_shared_cores_are_a_separate_limit() -> None:
    verdict = judge(rates(300, 400, feed_cpu_s=0.02, step_cpu_s=0.02))
    assert (verdict.limit, verdict.shared) == (200, True)


def test_a_step_on_a_device_of_its_own_shares_no_cores() -> None:
    own = Rates(4000, 400, 250, 200, 400, feed_cpu_s=1.0, step_cpu_s=1.0, cores=None)
    assert (judge(own).limit, judge(own).shared) == (200, False)


def test_each_part_of_the_feed_has_the_time_that_it_adds() -> None:
    parts = feed_parts(Rates(1000, 200, 125, 100, 1, 0, 0, None))
    assert parts == pytest.approx({"read": 0.1, "decode": 0.4, "augment": 0.3, "batch": 0.2})
    assert judge(Rates(1000, 200, 125, 100, 1, 0, 0, None)).slowest == "decode"


def test_recipe_that_decodes_only_what_it_crops_counts_as_decoding() -> None:
    parts = feed_parts(Rates(1000, 100, 200, 200, 1, 0, 0, None))
    assert parts == pytest.approx({"read": 0.2, "decode": 0.8, "augment": 0.0, "batch": 0.0})


def test_parts_within_noise_are_never_negative() -> None:
    parts = feed_parts(Rates(100, 101, 102, 103, 1, 0, 0, None))
    assert min(parts.values()) == 0
    assert sum(parts.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("share", "steps", "bound"),
    [
        (0.02, 50, COMPUTE),
        (0.05, 50, BALANCED),
        (0.10, 50, BALANCED),
        (0.40, 50, FEED),
        (0.40, 49, None),
        (None, 500, None),
    ],
)
def test_data_wait_determines_the_bottleneck_of_a_run_of_enough_steps(
    share: float | None, steps: int, bound: str | None
) -> None:
    assert judge_wait(share, steps) == bound
