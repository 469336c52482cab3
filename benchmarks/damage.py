"""Cost of damage: verify and salvage a dataset with one flipped byte, and an intact one of the same rows."""

import argparse
from pathlib import Path

from benchmarks.measure import module
from benchmarks.peers.damaged import DAMAGES
from benchmarks.suite import Maker, Suite, Way

PEER = "benchmarks.peers.damaged"


def damage_suite(asked: argparse.Namespace, work: Path) -> Suite:
    """Return, for each number of rows, one shard of small images: intact, and with each kind of damage."""
    ways = []
    for rows in asked.rows:
        for task in ("verify", "salvage"):
            for damage in DAMAGES:
                way, sound = (f"{task}, {rows:,} rows, {kind}" for kind in (damage, DAMAGES[0]))
                ways.append(_way(way, sound, work, task, f"{rows}-{damage}"))
    sets = {f"{rows}-{damage}": (_maker(rows, asked.side, damage), ()) for rows in asked.rows for damage in DAMAGES}
    return Suite("damage", tuple(ways), by=("task_s", "peak_mb"), sets=sets)


def _maker(rows: int, side: int, damage: str) -> Maker:
    return lambda folder: module(PEER, "make", folder / "set", rows, side, damage)


def _way(name: str, sound: str, work: Path, task: str, made: str) -> Way:
    return Way(name, lambda out: module(PEER, task, work / made / "set", out / "new"), sets=(made,), against=sound)
