"""Large folders compared with a bare directory walk, and plans of more rows than fit on disk."""

import argparse
from pathlib import Path

from benchmarks.measure import module
from benchmarks.suite import Maker, Suite, Way


def scan_suite(asked: argparse.Namespace, work: Path) -> Suite:
    """Return a walk and a dry run for each number of files, a plan for each number of rows. Caches are warm."""
    ways: list[Way] = []
    for count in asked.files:
        images, walk = work / str(count) / "set", f"walk, {count:,} files"
        ways.append(_way(walk, module("benchmarks.peers.walk", images), str(count), walk))
        dry_run = module("dataprep", "shard", images, work / "nowhere", "--dry-run", "--quiet")
        ways.append(_way(f"shard --dry-run, {count:,} files", dry_run, str(count), walk))
    smallest = f"plan, {min(asked.rows):,} rows" if asked.rows else None
    ways += [_plan(rows, smallest) for rows in asked.rows]
    sets = {str(count): (maker("files", count), ()) for count in asked.files}
    return Suite("scan", tuple(ways), by=("wall_s", "peak_mb"), sets=sets)


def maker(kind: str, count: int) -> Maker:
    """Return the command that makes a large set of tiny images."""
    return lambda folder: module("benchmarks.peers.tiny", kind, folder, count)


def _way(name: str, command: list[str], folder: str, against: str) -> Way:
    return Way(name, lambda out: command, sets=(folder,), against=against)


def _plan(rows: int, against: str | None) -> Way:
    # Minutes each, and what is asked is whether memory grows: once is enough.
    command = "benchmarks.peers.large_plan"
    return Way(f"plan, {rows:,} rows", lambda out: module(command, out, rows), against=against, rounds=1)
