"""Large datasets: time and memory until the first batch, which should hardly grow with the rows."""

import argparse
from pathlib import Path

from benchmarks.measure import module
from benchmarks.scan import maker
from benchmarks.suite import Suite, Way


def rows_suite(asked: argparse.Namespace, work: Path) -> Suite:
    """Return the trainer with its checks, and plain MindDataset, for each number of rows."""
    ways = []
    for count in asked.rows:
        ours = f"trainer, checks included, {count:,} rows"
        ways.append(_way(ours, work, count, "trainer", ours))
        ways.append(_way(f"MindDataset as it comes, {count:,} rows", work, count, "default", ours))
    return Suite(
        "rows",
        tuple(ways),
        by=("first_s", "grown_mb"),
        sets={str(count): (maker("rows", count), ()) for count in asked.rows},
    )


def _way(name: str, work: Path, count: int, kind: str, against: str) -> Way:
    command = module("benchmarks.peers.first_batch", work / str(count) / "set", kind)
    return Way(name, lambda out: command, sets=(str(count),), against=against)
