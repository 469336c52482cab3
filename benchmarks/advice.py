"""Check the verdict and the gains of `trainer doctor` against real runs, in five constructed situations.

    python -m benchmarks.advice [--only NAME ...] [--seconds 60] [--rounds 3] [--scratch DIR] [--json FILE]

For each situation, run the doctor, then `trainer run` without and with the recommended settings, interleaved. A run is
timed from its first steps, by the lines of steps.jsonl. Print the promised gain, the real gain, and their ratio, which
must be 0.8 or more. If nothing is recommended, the most promising flag must gain little.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT, module
from benchmarks.situations import SITUATIONS, Situation, SlowDisk, build, forget, with_remedy
from trainer.doctor.remedies import LEAST_GAIN

ENOUGH = 0.8  # of the promised gain
NO_GAIN = 1.05 / ENOUGH  # most gain in a real run of a flag reported as without gain
TIMED_S, STARTED_S = 15.0, 240.0
LEAST_STEPS = 6
POLL_S = 0.01
FAST = Path("/dev/shm")  # for a copy of the shards, where it is another disk


@dataclass(frozen=True)
class Outcome:
    """Result of one situation. `promised` and `real` are gains of the whole run, `rounds` the real gain per round."""

    situation: str
    verdict: str
    verdict_is_right: bool
    recommended: str | None
    promised: float
    tried: str
    real: float
    rounds: tuple[float, ...]
    quotient: float
    is_right: bool
    load: float


def main() -> None:
    """Build the situations, run the doctor and the runs, print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="Situations whose name has this in it.")
    parser.add_argument("--seconds", type=int, default=60, help="Of the doctor.")
    parser.add_argument("--rounds", type=int, default=3, help="Of real runs without and with the remedy.")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="Where to work; what is built there is used again.")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    # Ended by SIGTERM it removes its folders and its control group too, and ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    found = []
    with _folder(asked.scratch, None) as work, _folder(None, FAST if FAST.is_dir() else None) as fast:
        for situation in SITUATIONS:
            if not asked.only or any(name in situation.name for name in asked.only):
                outcome = examine(situation, work / situation.name.replace(" ", "_"), fast, asked)
                if outcome is not None:
                    found.append(outcome)
                    print(_line(outcome), flush=True)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    sys.exit(0 if all(one.is_right for one in found) else 1)


@contextmanager
def _folder(given: Path | None, parent: Path | None) -> Iterator[Path]:
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given.resolve()
        return
    with tempfile.TemporaryDirectory(dir=parent) as made:
        yield Path(made)


def examine(situation: Situation, folder: Path, fast: Path, asked: argparse.Namespace) -> Outcome | None:
    """Return the result of one situation; None if this machine cannot create it."""
    sealed = build(situation, folder)
    disk = None
    if situation.slow_disk is not None:
        try:
            disk = SlowDisk(folder, situation.slow_disk)
        except OSError as error:
            print(f"{situation.name}: left out, no control group limits reading here ({error})", file=sys.stderr)
            return None
    try:
        return _examine(situation, folder, sealed, fast, disk, asked)
    finally:
        if disk is not None:
            disk.close()


def _examine(
    situation: Situation, folder: Path, sealed: Path, fast: Path, disk: SlowDisk | None, asked: argparse.Namespace
) -> Outcome:
    enter = disk.enter if disk is not None else None
    options = [*situation.options, "--batch-size", str(situation.batch_size), "--device", "CPU"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GLOG_v": "4"}
    if disk is not None:
        forget(sealed)
        environment["TMPDIR"] = str(fast)
    command = [*module("trainer", "doctor", sealed, "--json", "--seconds", asked.seconds), *options]
    done = subprocess.run(
        command, cwd=folder, env=environment, preexec_fn=enter, check=True, capture_output=True, text=True
    )
    told = json.loads(done.stdout)
    (folder / "doctor.json").write_text(json.dumps(told, indent=1))
    verdict, advice = told["verdict"], told["advice"]
    best = next((one for one in advice if one["outcome"] == "helps"), None)
    tried = best or next((one for one in advice if one["alone"] is not None), None)
    flags = None if best is None else best["flags"]
    is_right = verdict["bound"] == situation.bound and situation.slowest in (None, verdict["slowest"])
    ratios: list[float] = []
    if tried is not None:
        other, extra = with_remedy(tried["flags"], folder, fast)
        for _ in range(asked.rounds):
            plain = real_rate(situation, folder, sealed, options, enter)
            ratios.append(real_rate(situation, folder, other, [*options, *extra], enter) / plain)
    real = statistics.median(ratios) if ratios else 1.0
    promised = _promise(best) if best else 1.0
    right_flag = flags is None if situation.remedy is None else bool(flags and flags.startswith(situation.remedy))
    kept = real / promised >= ENOUGH if best else real <= NO_GAIN
    return Outcome(
        situation=situation.name,
        verdict=f"{verdict['bound']}, slowest in the feed: {verdict['slowest']}",
        verdict_is_right=is_right,
        recommended=flags,
        promised=promised,
        tried="" if tried is None else tried["flags"],
        real=real,
        rounds=tuple(round(one, 3) for one in ratios),
        quotient=real / promised,
        is_right=is_right and kept and (right_flag or situation.remedy is None),
        load=os.getloadavg()[0],
    )


def _promise(advice: dict[str, Any]) -> float:
    loop, expected = advice["loop"], float(advice["expected"])
    if not loop or LEAST_GAIN <= expected < loop["gain"] / LEAST_GAIN:
        return expected
    return float(loop["gain"])


def real_rate(
    situation: Situation, folder: Path, sealed: Path, options: list[str], enter: Callable[[], None] | None
) -> float:
    """Return images/s of a real run, which is interrupted afterwards. Raises SystemExit if it fails."""
    out = folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    if enter is not None:
        forget(sealed)
    command = [*module("trainer", "run", sealed, "--out", out, "--log-every", 1, "--epochs", 1000), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GLOG_v": "4"}
    with tempfile.TemporaryFile() as err:
        child = subprocess.Popen(
            command, cwd=folder, env=environment, preexec_fn=enter, stdout=subprocess.DEVNULL, stderr=err
        )
        try:
            steps, seconds = _timed(child, out / "steps.jsonl", situation.warm_steps)
        except TimeoutError:
            err.seek(0)
            sys.exit(f"{situation.name}: the run makes no steps: {err.read().decode(errors='replace')[-500:]}")
        finally:
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
    size = int(options[len(options) - 1 - options[::-1].index("--batch-size") + 1])
    return steps * size / seconds


def _timed(child: "subprocess.Popen[Any]", lines: Path, warm_steps: int) -> tuple[int, float]:
    """Return the number of steps after the prefetched ones, and their time in seconds."""
    given_up = time.monotonic() + STARTED_S
    first = seen = 0
    began = 0.0
    while time.monotonic() < given_up and child.poll() is None:
        time.sleep(POLL_S)
        count, now = _count(lines), time.monotonic()
        if count == seen:
            continue
        seen = count  # a step has just ended
        if not began and count >= warm_steps:
            first, began = count, now
        elif began and now - began >= TIMED_S and count - first >= LEAST_STEPS:
            return count - first, now - began
    raise TimeoutError


def _count(lines: Path) -> int:
    try:
        return lines.read_bytes().count(b"\n")
    except OSError:
        return 0


def _line(one: Outcome) -> str:
    said = one.recommended or f"nothing (tried: {one.tried})"
    return (
        f"{one.situation}: {one.verdict} ({'right' if one.verdict_is_right else 'WRONG'}); {said}: promised "
        f"{one.promised:.2f}, real {one.real:.2f} {one.rounds}, quotient {one.quotient:.2f}; "
        f"{'right' if one.is_right else 'WRONG'}; load {one.load:.1f}"
    )


if __name__ == "__main__":
    main()
