"""What trials add up to: one conclusion for each flag, and what a run gains as a whole. Pure.

A part that became faster promises nothing: what a user gets is the whole loop. So a flag is recommended for what it
gained there, or for what its part gained where the other part costs nearly nothing. Each flag has one outcome only.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.doctor.remedies import HELPS, LEAST_GAIN, NO_GAIN, UNCERTAIN, Tried
from trainer.doctor.verdict import ROOM, Rates, limit_of, scaled

MOST_IN_LOOP = 3  # remedies that are tried in the whole loop: each takes its turns


@dataclass(frozen=True)
class Advice:
    """The conclusion for one flag. `outcome` is helps, uncertain or no gain.

    `alone` is its trial on feed or step, `loop` that in the whole loop; one of them may be missing. `expected` is the
    gain of the loop by the trial on a part, 1 where that part does not limit.
    """

    flags: str
    outcome: str
    alone: Tried | None
    loop: Tried | None
    expected: float

    @property
    def evidence(self) -> Tried:
        """The trial that decides."""
        found = self.loop or self.alone
        assert found is not None
        return found

    @property
    def is_idle(self) -> bool:
        """Return True if the part became faster, but does not limit."""
        return self.outcome == NO_GAIN and self.loop is None and self.evidence.outcome != NO_GAIN

    @property
    def gain(self) -> float:
        """How many times as fast the loop was; by calculation where that was not measured."""
        return self.loop.gain if self.loop else self.expected


def expected_gain(tried: Tried, rates: Rates) -> float:
    """Return how many times as fast the loop should be when a part gains what its trial shows."""
    if tried.part == "loop":
        return tried.gain
    return limit_of(scaled(rates, tried.part, tried.gain, tried.cpu)) / limit_of(rates)


def decides_alone(tried: Tried, rates: Rates) -> bool:
    """Return True if the loop can only gain what the part gains, since the other part costs nearly nothing."""
    other = {"feed": "step", "step": "feed"}.get(tried.part)
    if other is None:
        return True
    own, theirs = (tried.gain, tried.cpu), (math.inf, 0.0)
    after = scaled(rates, tried.part, *own)
    return limit_of(scaled(after, other, *theirs)) < ROOM * limit_of(after)


def for_the_loop(tried: Sequence[Tried], rates: Rates) -> list[Tried]:
    """Return the trials of parts to repeat in the whole loop: those that promise a gain there, the largest first."""
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
    found = [_conclusion(one, alone.get(one), loops.get(one), rates) for one in flags]
    return sorted(found, key=lambda one: -one.gain)


def _conclusion(flags: str, alone: Tried | None, loop: Tried | None, rates: Rates) -> Advice:
    expected = 1.0 if alone is None else expected_gain(alone, rates)
    if loop is not None:
        outcome = loop.outcome
    elif alone is None or alone.outcome == NO_GAIN or expected < LEAST_GAIN:
        outcome = NO_GAIN
    elif decides_alone(alone, rates):
        outcome = alone.outcome
    else:
        outcome = UNCERTAIN  # the part gains; whether the loop does was not measured
    return Advice(flags, outcome, alone, loop, expected)


def recommended(advice: Sequence[Advice]) -> list[Advice]:
    """Return those that help."""
    return [one for one in advice if one.outcome == HELPS]
