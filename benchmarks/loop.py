"""Training: compare the loop with the slower of feed and step, for each kind of bottleneck."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import module
from benchmarks.suite import Medians, Suite, Way
from benchmarks.write import KEPT, shard

PARTS = ("feed alone", "compute alone", "loop")
# A model and a side in pixels for each case, on one core for the feed and one for the step.
CASES = {"compute-bound": ("resnet18", 32), "balanced": ("tiny", 56), "feed-bound": ("tiny", 24)}


def loop_suite(asked: argparse.Namespace, work: Path) -> Suite:
    """Return each case: loop, feed and step. One core is left to the step, so that feed and step are as in the loop."""
    feeders = max(1, len(os.sched_getaffinity(0)) - 1)

    def way(case: str, part: str) -> Way:
        model, side = CASES[case]
        given = (part.split()[0], model, side, feeders)
        return Way(
            f"{case}: {part}",
            lambda out: module("benchmarks.peers.loop_parts", work / "sealed" / "set", out, *given),
            sets=("sealed",),
            against=f"{case}: {PARTS[0]}",
        )

    return Suite(
        "loop",
        tuple(way(case, part) for case in CASES for part in PARTS),
        by=("images_per_s",),
        sets={"sealed": (lambda folder: shard(asked.images, folder, "--val", "0", *KEPT), ())},
        extra={
            **{f"{case}: loop / slower half": reached(case, shared=False) for case in CASES},
            **{f"{case}: loop / what the cores allow": reached(case, shared=True) for case in CASES},
        },
    )


def reached(case: str, shared: bool) -> Callable[[Medians], float]:
    """Return the loop as a share of the slower of feed and step; `shared`: or of what all cores can do on both."""

    def ratio(medians: Medians) -> float:
        feed, compute, loop = (medians[f"{case}: {part}"] for part in PARTS)
        limit = min(feed["images_per_s"], compute["images_per_s"])
        if shared:
            cpu_s = (feed["cpu_ms_an_image"] + compute["cpu_ms_an_image"]) / 1000
            limit = min(limit, len(os.sched_getaffinity(0)) / cpu_s)
        return loop["images_per_s"] / limit

    return ratio
