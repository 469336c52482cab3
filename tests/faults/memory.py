"""One job under ever less memory, by hand: python -m tests.faults.memory --help

RLIMIT_AS is lowered step by step, from where the job runs to where Python does not start. At each step the job must end
with the same set, or with one sentence and 75 or 1, and nothing sealed.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.faults.scenes import JOB, PROGRAM, SCENES, state

MANNERS = {"serial": ("serial", "off"), "process": ("process", "off"), "prove": ("process", "decode")}


def limited(command: Sequence[str], mebibytes: int) -> "subprocess.CompletedProcess[str]":
    """Run it with so much address space, in it and in each of its children."""
    limits = (mebibytes << 20,) * 2
    return subprocess.run(
        command,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limits),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )


def starts(mebibytes: int) -> bool:
    """Whether Python itself does."""
    return limited([sys.executable, "-c", "import json, click"], mebibytes).returncode == 0


def outcome(command: Sequence[str], out: Path, wanted: dict[str, str], mebibytes: int) -> tuple[str, bool]:
    """How the job ended, and whether that is right."""
    done = limited(command, mebibytes)
    said = done.stderr.strip()
    if done.returncode == 0:
        return "the same set", state(out) == wanted
    right = done.returncode in (1, 75) and said.startswith("Error: ") and "\n" not in said
    return f"exit {done.returncode}: {said[-160:]}", right and not (out / "dataset.json").exists()


def steps(manner: str, box: Path, limits: Sequence[int]) -> Iterator[tuple[int, str, bool]]:
    """Try each limit in a folder of its own: the limit, how the job ended, whether that is right."""
    engine, prove = MANNERS[manner]
    source = box / "source"
    SCENES["shard"].make(source, box)

    def command(out: Path) -> list[str]:
        words = ("shard", str(source), str(out), *JOB, "--engine", engine, "--prove", prove, "--workers", "2")
        return [*PROGRAM, *words]

    subprocess.run(command(box / "calm"), check=True, capture_output=True)
    wanted = state(box / "calm")
    for limit in limits:
        if not starts(limit):
            return
        out = box / str(limit)
        yield limit, *outcome(command(out), out, wanted, limit)


def main() -> None:
    """Print one line a step."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.memory", description=__doc__)
    parser.add_argument("--manner", choices=MANNERS, action="append", help="default: all; repeatable")
    parser.add_argument("--most", type=int, default=6000, help="MiB of the first step")
    parser.add_argument("--step", type=int, default=50, help="MiB less each time")
    given = parser.parse_args()
    wrong = tried = 0
    for manner in given.manner or MANNERS:
        with tempfile.TemporaryDirectory(prefix="memory") as box:
            for limit, how, right in steps(manner, Path(box), range(given.most, 0, -given.step)):
                tried, wrong = tried + 1, wrong + (not right)
                print(f"{manner} {limit} MiB: {'' if right else 'WRONG '}{how}", flush=True)
    print(f"{tried} steps, {wrong} wrong")
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
