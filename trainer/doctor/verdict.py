"""Which stage sets the pace: from what feed and step reach alone, or from how long a run waited for data. Pure.

One margin for both ways: feed and step are balanced when they are within a tenth of each other. A step that waits for a
share w of the time goes on at 1 - w of its own pace, so a tenth of waiting is the same margin.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trainer.training.meter import BALANCED, COMPUTE, FEED, MARGIN

FAR = 10  # times the pace of the bottleneck: a part that is so much faster is measured no further

_BOUNDS = {"feed": FEED, "step": COMPUTE}
ROOM = 1.05  # what a part must leave to gain, if it cost nothing, for remedies for it to be worth a trial


@dataclass(frozen=True)
class Rates:
    """Images/s of each part alone, the first four one upon the other; CPU seconds an image of feed and step.

    `cores` is None where the step runs on a device of its own.
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
    """`bound` is feed, compute or balanced; `ratio` how many times faster the other one is; `limit` images/s that the
    loop cannot pass, `shared` whether that is for feed and step taking turns on the same cores.

    `parts` are the shares of read, decode, augment and batch in the time of the feed; `slowest` is the largest. `room`
    has for feed and step how many times as fast the loop could be if that one cost nothing: 1 for what does not limit.
    """

    bound: str
    ratio: float
    limit: float
    shared: bool
    parts: dict[str, float]
    slowest: str
    room: dict[str, float] = field(default_factory=dict)

    def limits(self, part: str) -> bool:
        """Return True if the loop is faster when this part (feed or step) is."""
        return self.bound in (BALANCED, _BOUNDS[part]) or self.room.get(part, 1.0) >= ROOM


def judge(rates: Rates) -> Verdict:
    """The verdict on what was measured; every rate is above 0."""
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
    """Return the images/s that the loop cannot pass: the slower part, or what the cores can do of both."""
    return min(rates.feed, rates.step, _together(rates))


def scaled(rates: Rates, part: str, gain: float, cpu: float) -> Rates:
    """Return the rates where feed or step is `gain` times as fast, for `cpu` times the CPU time per image."""
    if part == "feed":
        return replace(rates, feed=rates.feed * gain, feed_cpu_s=rates.feed_cpu_s * cpu)
    return replace(rates, step=rates.step * gain, step_cpu_s=rates.step_cpu_s * cpu)


def far_off(rates: Mapping[str, float]) -> set[str]:
    """Return the parts, by their images/s, that are so much faster than the slowest that they need no second look."""
    slowest = min(rates.values())
    return {part for part, rate in rates.items() if rate >= FAR * slowest}


def _together(rates: Rates) -> float:
    if rates.cores is None:
        return float("inf")
    cpu_s = rates.feed_cpu_s + rates.step_cpu_s
    return rates.cores / cpu_s if cpu_s > 0 else float("inf")


def feed_parts(rates: Rates) -> dict[str, float]:
    """What each part adds to the time of an image, as shares of the whole.

    A recipe may be faster than decoding alone, since RandomCropDecodeResize decodes what it crops and no more: all of
    it then counts as decoding.
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
