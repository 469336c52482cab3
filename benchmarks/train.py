"""Training: is it the feed or the model that takes the time, and does the loop add to the slower of the two?"""

import argparse
from pathlib import Path

from benchmarks.measure import module
from benchmarks.suite import Medians, Suite, Way
from benchmarks.write import KEPT, shard

WHOLE, FEED, COMPUTE = "trainer run", "feed alone", "compute alone"


def train_suite(asked: argparse.Namespace, work: Path) -> Suite:
    """The tiny model at the trainer's own settings: whole, and each half alone."""

    def part(name: str, kind: str) -> Way:
        return Way(
            name,
            lambda out: module("benchmarks.peers.train_parts", work / "sealed" / "set", out, kind),
            sets=("sealed",),
        )

    def added(seen: Medians, both: bool) -> float:
        parts = seen[FEED]["ms_a_step"], seen[COMPUTE]["ms_a_step"]
        return seen[WHOLE]["ms_a_step"] / (sum(parts) if both else max(parts))

    return Suite(
        "train",
        (part(WHOLE, "whole"), part(FEED, "feed"), part(COMPUTE, "compute")),
        by=("ms_a_step", "cpu_s"),
        sets={"sealed": (lambda folder: shard(asked.images, folder, "--val", "0", *KEPT), ())},
        extra={
            "whole / slower half": lambda seen: added(seen, both=False),
            "whole / sum of both": lambda seen: added(seen, both=True),
        },
    )
