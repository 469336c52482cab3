"""Conclusions from trials: one outcome per flag, and the gain of the whole loop. Pure.

A faster feed or step need not speed up a run. So a flag is recommended for its gain in the whole loop, or for the
gain of its stage if the other stage takes almost no time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.doctor.remedies import HELPS, LEAST_GAIN, NO_GAIN, UNCERTAIN, Tried
from trainer.doctor.verdict import ROOM, Rates, limit_of, scaled

MOST_IN_LOOP = 3  # remedies that are tried in the whole loop


@dataclass(frozen=True)
class Advice:
    """The conclusion for one flag. `outcome` is HELPS, UNCERTAIN or NO_GAIN.

    `alone` is the trial of the flag on feed or step, `loop` the trial in the whole loop. `alone` or `loop` may be None.
    `expected` is the gain of the loop, computed from `alone`: 1 if the stage is not the bottleneck.
    """

    flags: str
    outcome: str
    alone: Tried | None
    loop: Tried | None
    expected: float

    @property
    def evidence(self) -> Tried:
        """Return the trial that decides the outcome."""
        trial = self.loop or self.alone
        assert trial is not None
        return trial

    @property
    def is_idle(self) -> bool:
        """Return True if the stage became faster, but is not the bottleneck."""
        return self.outcome == NO_GAIN and self.loop is None and self.evidence.outcome != NO_GAIN

    @property
    def gain(self) -> float:
        """Return the reported speedup of the loop, limited to the speedup that the stage rates allow.

        If feed and step share cores, a short measurement includes the time to fill the queues and may overestimate
        the gain of a long run.
        """
        if self.loop is None:
            return self.expected
        return self.expected if self.is_capped else self.loop.gain

    @property
    def is_capped(self) -> bool:
        """Return True if the speedup measured in the loop exceeds the speedup that the stage rates allow."""
        return self.loop is not None and LEAST_GAIN <= self.expected < self.loop.gain / LEAST_GAIN


def expected_gain(tried: Tried, rates: Rates) -> float:
    """Return the expected speedup of the loop, given the trial of a stage."""
    if tried.part == "loop":
        return tried.gain
    return limit_of(scaled(rates, tried.part, tried.gain, tried.cpu)) / limit_of(rates)


def decides_alone(tried: Tried, rates: Rates) -> bool:
    """Return True if the other stage takes almost no time, so that loop and stage have the same gain."""
    other = {"feed": "step", "step": "feed"}.get(tried.part)
    if other is None:
        return True
    own, theirs = (tried.gain, tried.cpu), (math.inf, 0.0)
    after = scaled(rates, tried.part, *own)
    return limit_of(scaled(after, other, *theirs)) < ROOM * limit_of(after)


def for_the_loop(tried: Sequence[Tried], rates: Rates) -> list[Tried]:
    """Return the stage trials to repeat in the whole loop: trials with an expected gain, the largest gain first."""
    promising = [
        one
        for one in tried
        if one.part != "loop" and one.outcome != NO_GAIN and expected_gain(one, rates) >= LEAST_GAIN
    ]
    return sorted(promising, key=lambda one: -expected_gain(one, rates))[:MOST_IN_LOOP]


def conclude(tried: Sequence[Tried], rates: Rates) -> list[Advice]:
    """Return one conclusion per flag, the largest gain first."""
    alone = {one.flags: one for one in tried if one.part != "loop"}
    loops = {one.flags: one for one in tried if one.part == "loop"}
    flags = dict.fromkeys(one.flags for one in tried)
    advice = [_conclusion(one, alone.get(one), loops.get(one), rates) for one in flags]
    return sorted(advice, key=lambda one: -one.gain)


def _conclusion(flags: str, alone: Tried | None, loop: Tried | None, rates: Rates) -> Advice:
    expected = 1.0 if alone is None else expected_gain(alone, rates)
    if loop is not None:
        outcome = loop.outcome
    elif alone is None or alone.outcome == NO_GAIN or expected < LEAST_GAIN:
        outcome = NO_GAIN
    elif decides_alone(alone, rates):
        outcome = alone.outcome
    else:
        outcome = UNCERTAIN  # the stage gains; the loop was not measured
    return Advice(flags, outcome, alone, loop, expected)


def recommended(advice: Sequence[Advice]) -> list[Advice]:
    """Return the advice whose outcome is HELPS."""
    return [one for one in advice if one.outcome == HELPS]
