"""One conclusion per flag, from trials that are made up."""

import statistics
from dataclasses import replace

import pytest

from trainer.doctor.advice import conclude, expected_gain, for_the_loop, recommended
from trainer.doctor.remedies import HELPS, NO_GAIN, UNCERTAIN, Remedy, Tried, weigh
from trainer.doctor.verdict import Rates, far_off, judge

# An accelerator of its own: the feed gives 200 images/s, the step takes 100.
COMPUTE = Rates(4000, 300, 250, feed=200, step=100, feed_cpu_s=0.01, step_cpu_s=0.001, cores=None)
FEED = replace(COMPUTE, step=640)
# Two cores that feed and step share: 100 images/s at most, though the step alone makes 200.
SHARED = Rates(4000, 300, 250, feed=200, step=200, feed_cpu_s=0.01, step_cpu_s=0.01, cores=2)


def trial(flags: str, part: str, *ratios: float, cpu: float | None = None) -> Tried:
    """A trial whose gain saves CPU time, unless `cpu` says otherwise."""
    saved = 1 / statistics.median(ratios) if cpu is None else cpu
    return weigh(Remedy(flags), part, [100.0] * len(ratios), [100.0 * ratio for ratio in ratios], saved)


def outcomes(tried: list[Tried], rates: Rates = COMPUTE) -> dict[str, str]:
    return {one.flags: one.outcome for one in conclude(tried, rates)}


def test_flag_is_recommended_for_what_the_whole_loop_gained() -> None:
    [advice] = conclude([trial("--a", "step", 2.0, 2.0, 2.0), trial("--a", "loop", 1.4, 1.45, 1.5)], COMPUTE)
    assert (advice.outcome, advice.gain, advice.evidence.part) == (HELPS, pytest.approx(1.45), "loop")
    assert recommended([advice]) == [advice]


def test_reported_gain_is_at_most_what_the_stages_allow() -> None:
    [advice] = conclude([trial("--a", "step", 1.5, 1.5, 1.5), trial("--a", "loop", 4.0, 9.0, 8.0)], COMPUTE)
    assert (advice.outcome, advice.gain, advice.is_capped) == (HELPS, 1.5, True)
    [other] = conclude([trial("--a", "step", 1.0, 1.0, 1.0), trial("--a", "loop", 1.5, 1.5, 1.5)], COMPUTE)
    assert (other.gain, other.is_capped) == (1.5, False), "the trial of the stage shows no gain, the loop does"


@pytest.mark.parametrize(
    ("alone", "loop", "outcome"),
    [
        ((1.5, 1.5, 1.5), (1.5, 1.5, 1.5), HELPS),
        ((1.5, 1.5, 1.5), (1.04, 1.04, 1.04), NO_GAIN),
        ((1.5, 1.5, 1.5), (0.9, 1.2, 1.3), UNCERTAIN),
        ((1.5, 1.5, 1.5), (), UNCERTAIN),  # the loop was not measured
        ((0.9, 1.5, 1.5), (1.5, 1.5, 1.5), HELPS),  # the loop decides
        ((1.04, 1.0, 1.2), (), NO_GAIN),
        ((), (1.2, 1.2, 1.2), HELPS),  # sink is tried in the loop only
    ],
)
def test_each_flag_has_one_outcome(alone: tuple[float, ...], loop: tuple[float, ...], outcome: str) -> None:
    tried = [trial("--a", part, *ratios) for part, ratios in (("step", alone), ("loop", loop)) if ratios]
    assert outcomes(tried, SHARED) == {"--a": outcome}


def test_stage_that_is_not_the_bottleneck_gains_nothing_however_fast_it_becomes() -> None:
    faster_step = trial("--amp-level O2", "step", 1.9, 1.9, 1.9)
    assert outcomes([faster_step], FEED) == {"--amp-level O2": NO_GAIN}
    assert for_the_loop([faster_step], FEED) == []
    assert outcomes([faster_step], SHARED) == {"--amp-level O2": UNCERTAIN}


def test_trial_of_a_stage_decides_alone_if_the_other_costs_almost_nothing() -> None:
    faster = trial("--amp-level O0", "step", 1.4, 1.45, 1.5, cpu=0.7)
    shared = replace(SHARED, step=20, step_cpu_s=0.1, feed=4000, feed_cpu_s=0.0005)
    for rates in (replace(COMPUTE, feed=2000), shared):
        [advice] = conclude([faster], rates)
        assert (advice.outcome, advice.gain) == (HELPS, pytest.approx(1.45, rel=0.05))
    assert outcomes([faster], SHARED) == {"--amp-level O0": UNCERTAIN}
    assert outcomes([trial("--a", "step", 1.4, 0.9, 1.5)], shared) == {"--a": UNCERTAIN}


def test_expected_gain_is_limited_by_the_other_stage() -> None:
    assert expected_gain(trial("--a", "step", 3.0, 3.0, 3.0), COMPUTE) == 2.0
    assert expected_gain(trial("--a", "step", 2.0, 2.0, 2.0, cpu=0.5), SHARED) == pytest.approx(4 / 3)
    # More threads use more cores and save none of their time.
    assert expected_gain(trial("--workers 2", "feed", 2.0, 2.0, 2.0, cpu=1.0), SHARED) == 1.0


def test_most_promising_are_tried_in_the_loop_first() -> None:
    tried = [trial(f"--{gain}", "step", gain, gain, gain) for gain in (1.1, 1.9, 1.04, 1.5, 1.3)]
    assert [one.flags for one in for_the_loop(tried, COMPUTE)] == ["--1.9", "--1.5", "--1.3"]


@pytest.mark.parametrize(("rates", "feed", "step"), [(COMPUTE, False, True), (FEED, True, False), (SHARED, True, True)])
def test_stage_is_the_bottleneck_if_the_loop_gains_from_it(rates: Rates, feed: bool, step: bool) -> None:
    verdict = judge(rates)
    assert (verdict.limits("feed"), verdict.limits("step")) == (feed, step)


def test_feed_and_step_are_both_bottlenecks_if_they_share_cores() -> None:
    slower_step = judge(replace(SHARED, step=100, step_cpu_s=0.02))
    assert slower_step.bound == "compute"
    assert slower_step.room == pytest.approx({"feed": 1.5, "step": 3.0})
    assert slower_step.limits("feed")
    tiny_feed = judge(replace(SHARED, feed=4000, feed_cpu_s=0.0002))
    assert not tiny_feed.limits("feed")


def test_stages_ten_times_as_fast_as_the_bottleneck_are_not_measured_again() -> None:
    assert far_off({"read": 4000.0, "decode": 1999.0, "feed": 200.0, "step": 2000.0}) == {"read", "step"}
