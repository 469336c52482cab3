"""Session of measurements on one run: its plan, its clock, and the time left."""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mindspore.dataset as ds

from trainer.device.context import this_machine
from trainer.doctor.notes import Tell
from trainer.doctor.stages import Measurement, Stage, measure, measure_in_rounds
from trainer.plan.run_plan import RunPlan, plan_run
from trainer.signals import StopSignals

SEEDS = 2**31  # MindSpore's seeds are below this number


@dataclass
class Session:
    """A plan, a scratch folder, the seconds to spend, and a callback for progress messages.

    With `vary_order` each measurement reads the rows in another order. Otherwise all measurements start with the same
    rows. The rows are cached after the first measurement, which hides slow storage.
    """

    plan: RunPlan
    scratch: Path
    seconds: float
    stop: StopSignals
    tell: Tell
    clock: Callable[[], float] = time.perf_counter
    vary_order: bool = False

    def __post_init__(self) -> None:
        self.began = self.clock()
        self._orders = itertools.count(self.plan.config.seed + 1)

    @property
    def spent_s(self) -> float:
        """Return the seconds since the start."""
        return self.clock() - self.began

    def left_s(self, share: float = 1.0) -> float:
        """Return the seconds until `share` of the time is over, below 0 afterwards."""
        return share * self.seconds - self.spent_s

    def take(self, part: Stage, seconds: float) -> Measurement:
        """Measure a stage once, for about `seconds`."""
        if self.vary_order:
            ds.config.set_seed(next(self._orders) % SEEDS)
        measurement = measure(part, seconds, self.stop.check, self.clock)
        self.stop.check()
        return measurement

    def rounds(
        self, parts: Sequence[Stage], count: int, seconds: float, least: int = 1
    ) -> dict[str, list[Measurement]]:
        """Measure each stage up to `count` times within `seconds`, but at least `least` times."""
        return measure_in_rounds(parts, count, self.clock() + seconds, self.take, self.clock, least)

    def planned(self, **changes: Any) -> RunPlan:
        """Return the plan with `changes` of the configuration. Raises TrainerError if flags do not fit together."""
        return plan_run(
            replace(self.plan.config, dataset=str(self.plan.folder), **changes),
            this_machine(self.plan.effect.device),
            home=self.plan.home,
        )
