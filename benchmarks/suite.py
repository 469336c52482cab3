"""Suites: several ways to do one thing, run in interleaved rounds, and their medians."""

import importlib.util
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measure import Run, RunFailed, run

TIMEOUT_S = 900.0
Maker = Callable[[Path], Sequence[str]]  # from a new folder to the command that writes into it
Medians = Mapping[str, Mapping[str, float]]  # of each way, its figures


@dataclass(frozen=True)
class Need:
    """A package that a way needs: the name to import, and the name for pip."""

    module: str
    pip: str

    @property
    def is_missing(self) -> bool:
        """Return True if it is not installed. It is not imported, to keep the runner small."""
        return importlib.util.find_spec(self.module) is None


@dataclass(frozen=True)
class Way:
    """One way to do it. `command` gets a new output folder, which is removed after the run.

    `needs` names packages, `sets` the prepared inputs of its suite, which are made once before the first round.
    `against` is the baseline of its ratios, if not the first way of the suite. `rounds` limits the rounds of a slow
    way. `watch` polls the memory of child processes.
    """

    name: str
    command: Maker
    needs: tuple[Need, ...] = ()
    sets: tuple[str, ...] = ()
    against: str | None = None
    rounds: int | None = None
    timeout_s: float = TIMEOUT_S
    watch: bool = False


@dataclass(frozen=True)
class Suite:
    """Ways to compare. The first one that ran is the baseline; ratios are computed for the figures in `by`.

    `sets` has, for each prepared input, the command that makes it and the packages it needs. `extra` are further
    ratios: a name, and a function of the medians of all ways that ran.
    """

    name: str
    ways: tuple[Way, ...]
    by: tuple[str, ...] = ("wall_s", "cpu_s")
    sets: Mapping[str, tuple[Maker, tuple[Need, ...]]] = field(default_factory=dict)
    extra: Mapping[str, Callable[[Medians], float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """Result of one way: medians, lowest and highest of the first figure, ratios to the way `against`."""

    way: str
    against: str
    runs: int
    figures: dict[str, float]
    low: float
    high: float
    ratios: dict[str, float]


def measure(suite: Suite, rounds: int, only: Sequence[str], work: Path) -> list[Row]:
    """Run the ways whose name has a word of `only`, or all if it is empty; return their rows. Progress on stderr."""
    asked = [way for way in suite.ways if not only or any(word in way.name for word in only)]
    ways = _with_inputs(suite, [way for way in asked if _is_installed(way)], work)
    seen: dict[str, list[Run]] = {way.name: [] for way in ways}
    failed: set[str] = set()
    for number in range(rounds):
        for way in ways:
            if way.name not in failed and number < (way.rounds or rounds):
                try:
                    done = _one(way, work)
                    seen[way.name].append(done)
                    say(f"round {number + 1}: {way.name}: {done.wall_s:.2f} s")
                except RunFailed as error:
                    failed.add(way.name)
                    say(f"{way.name}: {error}; left out")
    return _rows(suite, {name: runs for name, runs in seen.items() if runs and name not in failed})


def say(text: str) -> None:
    """Print progress on stderr; stdout is for results."""
    print(text, file=sys.stderr, flush=True)


def _is_installed(way: Way) -> bool:
    for need in way.needs:
        if need.is_missing:
            say(f"{way.name}: skipped, needs: pip install {need.pip}")
            return False
    return True


def _with_inputs(suite: Suite, ways: list[Way], work: Path) -> list[Way]:
    """Make the prepared inputs; return the ways that have all their inputs."""
    wanted = dict.fromkeys(name for way in ways for name in way.sets)
    made: set[str] = set()
    for name in wanted:
        command, needs = suite.sets[name]
        missing = [need.pip for need in needs if need.is_missing]
        if missing:
            say(f"input {name}: skipped, needs: pip install {missing[0]}")
            continue
        say(f"making input {name}")
        try:
            (work / name).mkdir()
            run(command(work / name), TIMEOUT_S)
            made.add(name)
        except RunFailed as error:
            say(f"input {name} {error}; ways that need it are left out")
    return [way for way in ways if made.issuperset(way.sets)]


def _one(way: Way, work: Path) -> Run:
    out = Path(tempfile.mkdtemp(prefix="out-", dir=work))
    os.sync()  # what the run before has left to write is not this one's
    try:
        return run(way.command(out), way.timeout_s, way.watch)
    finally:
        shutil.rmtree(out)


def _rows(suite: Suite, seen: Mapping[str, list[Run]]) -> list[Row]:
    medians = {name: _medians(runs) for name, runs in seen.items()}
    against = {way.name: way.against if way.against in seen else next(iter(seen), "") for way in suite.ways}
    rows = []
    for name, runs in seen.items():
        first = [done.figures().get(suite.by[0], 0.0) for done in runs]
        own, other = medians[name], medians[str(against[name])]
        ratios = {by: own[by] / other[by] for by in suite.by if other.get(by) and by in own}
        rows.append(Row(name, str(against[name]), len(runs), own, min(first), max(first), ratios))
    return rows


def _medians(runs: list[Run]) -> dict[str, float]:
    figures = [done.figures() for done in runs]
    return {name: statistics.median(each[name] for each in figures if name in each) for name in figures[0]}
