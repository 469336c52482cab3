"""One examination of a run: what is examined, by which clock, and how much of its time is over."""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mindspore.dataset as ds

from trainer.device.context import this_machine
from trainer.doctor.stages import Measurement, Stage, measure, take_turns
from trainer.plan.run_plan import RunPlan, plan_run
from trainer.signals import StopSignals

SEEDS = 2**31  # MindSpore's own are below that


@dataclass
class Session:
    """A plan, a scratch folder, the seconds to spend, and a callback for progress messages.

    With `vary_order` each turn reads the rows in an order of its own. Otherwise all turns begin with the same rows,
    which the cache holds after the first: a slow storage would not be noticed.
    """

    plan: RunPlan
    scratch: Path
    seconds: float
    stop: StopSignals
    tell: Callable[[str], None]
    clock: Callable[[], float] = time.perf_counter
    vary_order: bool = False

    def __post_init__(self) -> None:
        self.began = self.clock()
        self._orders = itertools.count(self.plan.config.seed + 1)

    @property
    def spent_s(self) -> float:
        """How long it has lasted."""
        return self.clock() - self.began

    def left_s(self, share: float = 1.0) -> float:
        """How long it is until this share of the time is over; below 0 when it is."""
        return share * self.seconds - self.spent_s

    def take(self, part: Stage, seconds: float) -> Measurement:
        """One turn."""
        if self.vary_order:
            ds.config.set_seed(next(self._orders) % SEEDS)
        turn = measure(part, seconds, self.stop.check, self.clock)
        self.stop.check()
        return turn

    def rounds(
        self, parts: Sequence[Stage], count: int, seconds: float, least: int = 1
    ) -> dict[str, list[Measurement]]:
        """Up to `count` turns of each and no fewer than `least`, within so many seconds if those allow it."""
        return take_turns(parts, count, self.clock() + seconds, self.take, self.clock, least)

    def planned(self, **changes: Any) -> RunPlan:
        """The plan with other flags; raises TrainerError when they do not go together."""
        return plan_run(
            replace(self.plan.config, dataset=str(self.plan.folder), **changes),
            this_machine(self.plan.effect.device),
            home=self.plan.home,
        )
