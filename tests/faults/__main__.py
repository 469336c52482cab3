"""All faults at all calls, by hand: python -m tests.faults --help"""

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.harness import ERRORS, Fault, Faults, Point
from tests.faults.scenes import MODULES, SCENES, Stage
from tests.faults.server import Server

LASTING = ("EIO", "ENOSPC", "EACCES", "ESTALE")  # a disk that fails from some call on
FAULTS = [*map(Fault, ERRORS), *(Fault(error, lasts=True) for error in LASTING), Fault("short"), Fault("kill")]


@dataclass
class Table:
    """How often a scene ended how, by fault, and each ending that is wrong."""

    scene: str
    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    points: int = 0

    def add(self, point: Point, fault: Fault, code: int, err: str, wrong: list[str]) -> None:
        """Count one."""
        said = (err.strip().splitlines() or [""])[-1]
        self.ends[str(fault), "wrong" if wrong else f"exit {code}" if code >= 0 else "killed"] += 1
        if wrong:
            self.wrong.append(f"{fault} at {point.number} {point.call} {point.path}: {'; '.join(wrong)}: {said[:300]}")
            print(f"  WRONG {self.scene}: {self.wrong[-1]}", flush=True)

    def lines(self) -> Iterator[str]:
        """One a fault."""
        for fault in dict.fromkeys(fault for fault, _ in self.ends):
            ends = ", ".join(f"{n} {end}" for (which, end), n in sorted(self.ends.items()) if which == fault)
            yield f"  {fault:9s} {ends}"


def play(scene: str, faults: list[Fault], every: int, seed: int, lane: Path) -> Table:
    """Every `every`-th point of a scene with each fault; from a seeded first one."""
    counter = Faults(lane)
    table = Table(scene)
    with Server(counter.library, MODULES, lane) as server:
        if SCENES[scene].alone:
            counter.launch = server.launch
        stage = Stage(SCENES[scene], lane / "scene", counter)
        table.points = len(stage.points)
        for fault in faults:
            first = random.Random(f"{seed}:{scene}:{fault}").randrange(every)
            for point in filter(fault.fits, stage.points[first::every]):
                ended, wrong = stage.play(point, fault)
                table.add(point, fault, ended.code, ended.err, wrong)
    return table


def main() -> None:
    """Play scenes and print a table of each."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--scene", action="append", choices=SCENES, help="default: all; repeatable")
    parser.add_argument("--fault", action="append", choices=list(map(str, FAULTS)), help="+: it lasts; default: all")
    parser.add_argument("--every", type=int, default=1, help="try every N-th call only")
    parser.add_argument("--seed", type=int, default=0, help="which ones these are")
    parser.add_argument("--lanes", type=int, default=2, help="how many are played at once")
    given = parser.parse_args()
    faults = [fault for fault in FAULTS if not given.fault or str(fault) in given.fault]
    scenes = given.scene or list(SCENES)
    started = time.monotonic()
    tables: list[Table] = []
    with tempfile.TemporaryDirectory(prefix="faults") as box, ThreadPoolExecutor(given.lanes) as lanes:
        played = [
            lanes.submit(play, scene, faults, given.every, given.seed, Path(box).resolve() / str(number))
            for number, scene in enumerate(scenes)
        ]
        for scene, future in zip(scenes, played, strict=True):
            tables.append(table := future.result())
            print(f"{scene}: {table.points} calls, {table.ends.total()} tried, {len(table.wrong)} wrong", flush=True)
            print("\n".join(table.lines()), flush=True)
    tried, wrong = sum(table.ends.total() for table in tables), sum(len(table.wrong) for table in tables)
    print(f"{tried} points, {wrong} wrong, {time.monotonic() - started:.0f} s")
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
