"""The bottleneck of a run, from the throughput of feed and step alone. Pure.

Feed and step are balanced if their throughputs are within a tenth of each other. A step that waits for a share w of
the time runs at 1 - w of its full speed, so a data wait of a tenth is the same margin.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trainer.training.meter import BALANCED, COMPUTE, FEED, MARGIN

FAR = 10  # ratio to the throughput of the bottleneck, above which a stage is not measured again

_BOUNDS = {"feed": FEED, "step": COMPUTE}
ROOM = 1.05  # a stage is worth trials if the loop, when the stage takes no time, gains at least this factor


@dataclass(frozen=True)
class Rates:
    """Images/s of each stage alone, and CPU seconds per image. Each part of the feed includes the parts before it.

    `cores` is None if the step does not run on the CPU.
    """

    read: float
    decode: float
    augment: float
    feed: float
    step: float
    feed_cpu_s: float
    step_cpu_s: float
    cores: int | None


@dataclass(frozen=True)
class Verdict:
    """Bottleneck of a run. `bound` is feed, compute or balanced; `ratio` is the faster throughput over the slower.

    `limit` is the highest possible throughput of the loop in images/s. `shared` is True if cores shared by feed and
    step set the limit. `parts` has the shares of read, decode, augment and batch in the time of the feed; `slowest` has
    the largest share. `room` has, for feed and step, the speedup of the loop if that stage took no time.
    """

    bound: str
    ratio: float
    limit: float
    shared: bool
    parts: dict[str, float]
    slowest: str
    room: dict[str, float] = field(default_factory=dict)

    def limits(self, part: str) -> bool:
        """Return True if a faster stage (feed or step) makes the loop faster."""
        return self.bound in (BALANCED, _BOUNDS[part]) or self.room.get(part, 1.0) >= ROOM


def judge(rates: Rates) -> Verdict:
    """Return the verdict on measured rates. All rates must be above 0."""
    slower, faster = sorted((rates.feed, rates.step))
    ratio = faster / slower
    bound = BALANCED if ratio <= 1 + MARGIN else FEED if rates.feed < rates.step else COMPUTE
    together = _together(rates)
    parts = feed_parts(rates)
    return Verdict(
        bound=bound,
        ratio=ratio,
        limit=min(slower, together),
        shared=together < slower,
        parts=parts,
        slowest=max(parts, key=lambda name: parts[name]),
        room={part: limit_of(scaled(rates, part, math.inf, 0.0)) / limit_of(rates) for part in ("feed", "step")},
    )


def limit_of(rates: Rates) -> float:
    """Return the highest possible images/s of the loop, set by the slower stage or by shared cores."""
    return min(rates.feed, rates.step, _together(rates))


def scaled(rates: Rates, part: str, gain: float, cpu: float) -> Rates:
    """Return the rates with feed or step `gain` times as fast, at `cpu` times the CPU time per image."""
    if part == "feed":
        return replace(rates, feed=rates.feed * gain, feed_cpu_s=rates.feed_cpu_s * cpu)
    return replace(rates, step=rates.step * gain, step_cpu_s=rates.step_cpu_s * cpu)


def far_off(rates: Mapping[str, float]) -> set[str]:
    """Return the stages so much faster than the slowest stage that one measurement is enough."""
    slowest = min(rates.values())
    return {part for part, rate in rates.items() if rate >= FAR * slowest}


def _together(rates: Rates) -> float:
    if rates.cores is None:
        return float("inf")
    cpu_s = rates.feed_cpu_s + rates.step_cpu_s
    return rates.cores / cpu_s if cpu_s > 0 else float("inf")


def feed_parts(rates: Rates) -> dict[str, float]:
    """Return the share of each part in the time of the feed.

    A recipe can be faster than decoding alone, because RandomCropDecodeResize decodes only the crop. All of its
    time then counts as decoding.
    """
    read, decode, augment, feed = (1 / rate for rate in (rates.read, rates.decode, rates.augment, rates.feed))
    decode = min(decode, augment)
    added = {
        "read": read,
        "decode": max(0.0, decode - read),
        "augment": max(0.0, augment - max(decode, read)),
        "batch": max(0.0, feed - max(augment, read)),
    }
    whole = sum(added.values())
    return {name: value / whole for name, value in added.items()}
