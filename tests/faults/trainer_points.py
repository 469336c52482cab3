"""Disturbs `trainer run` at calls to the file system, one call per process, and lets it go on without a fault.

By hand: .venv/bin/python -m tests.faults.trainer_points FOLDER [COUNT] [SEED]. MindSpore is imported once: each process
is a fork of the one that has imported it, so a point takes a second or two.
"""

import ctypes
import errno
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.examples import ROOT
from tests.faults.harness import ERRORS, STATE, Ended, Fault, Faults, Point, complaints
from tests.trainer.examples import seal

WORK, SET, RUN = "work", "work/set", "work/run"
LIMIT_S = 60.0


@dataclass(frozen=True)
class Result:
    """What came of one point: how the disturbed process and the one after it ended, and what is wrong with that."""

    point: str
    fault: str
    code: int
    said: str
    rerun: int
    wrong: list[str]


def command(folder: Path, keep: int) -> list[str]:
    small = ["--device", "CPU", "--workers", "1", "--image-size", "32", "--batch-size", "8", "--log-every", "1"]
    often = ["--epochs", "2", "--save-every", "2", "--keep", str(keep)]
    return ["run", str(folder / SET), *small, *often, "--out", str(folder / RUN)]


def survey(folder: Path, count: int, seed: int, below: str = WORK, keep: int = 1) -> Iterator[Result]:
    """Disturb the run at `count` points below a folder, drawn by `seed`. To be called with the library preloaded."""
    arguments = command(folder, keep)
    undisturbed = _fork(folder, arguments)
    assert undisturbed.code == 0, undisturbed.err
    wanted = _contents(folder / RUN)
    shutil.rmtree(folder / RUN)
    log = folder / "calls"
    log.unlink(missing_ok=True)
    _fork(folder, arguments, FAULT_LOG=str(log), FAULT_ROOT=str(folder / below))
    shutil.rmtree(folder / RUN)
    points = [Point(int(one[0]), int(one[1]), one[2], one[3]) for one in map(_split, log.read_text().splitlines())]
    faults = [Fault(what, lasts) for what in (*ERRORS, "EROFS", "EDQUOT") for lasts in (False, True)]
    faults.remove(Fault("EINTR", lasts=True))  # Python repeats such a call for ever; no signal comes for ever
    faults += [Fault("short"), Fault("kill"), Fault("kill")]
    pairs = [(point, fault) for point in points for fault in faults if fault.fits(point)]
    draw = random.Random(seed)
    chosen = draw.sample(pairs, min(count, len(pairs))) if count else pairs
    for point, fault in chosen:
        yield _try(folder, arguments, below, point, fault, wanted)


def _split(line: str) -> list[str]:
    return line.split(" ", 3)


def _try(folder: Path, arguments: list[str], below: str, point: Point, fault: Fault, wanted: dict[str, Any]) -> Result:
    shutil.rmtree(folder / RUN, ignore_errors=True)
    error = fault.what if fault.what in ("short", "kill") else str(_number(fault.what))
    how = {"FAULT_AT": str(point.number), "FAULT_ERROR": error, "FAULT_COUNT": "0" if fault.lasts else "1"}
    ended = _fork(folder, arguments, FAULT_ROOT=str(folder / below), **how)
    again = _fork(folder, arguments)
    wrong = complaints(ended) + [f"rerun: {one}" for one in complaints(again)]
    if again.code:
        wrong.append(f"rerun ends with {again.code}: {_last(again.err)}")
    elif _contents(folder / RUN) != wanted:
        wrong.append("the rerun ends with other weights")
    if ended.code == 3:
        wrong.append("a disk's error taken for bad data")
    where = f"{point.call} {point.path}"
    return Result(where, str(fault), ended.code, _last(ended.err), again.code, wrong)


def _number(name: str) -> int:
    return int(getattr(errno, name))


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _fork(folder: Path, arguments: list[str], **environment: str) -> Ended:
    (folder / "state").write_bytes(STATE.pack(0, 0))
    pid = os.fork()
    if not pid:
        _child(folder, arguments, environment)
    until = time.monotonic() + LIMIT_S
    while not (found := os.waitpid(pid, os.WNOHANG))[0] and time.monotonic() < until:
        time.sleep(0.01)
    if not found[0]:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(found[1]) if found[0] else -signal.SIGALRM
    out, err = ((folder / name).read_text(errors="replace") for name in ("out", "err"))
    calls, failed = STATE.unpack((folder / "state").read_bytes())
    return Ended(code, out, err, failed, calls)


def _child(folder: Path, arguments: list[str], environment: dict[str, str]) -> None:
    code: Any = 99
    try:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        sys.argv = ["trainer", *arguments]
        os.environ.update(environment)
        ctypes.CDLL(None).faults_restart()
        from trainer.cli.commands import main

        main()
    except SystemExit as left:
        code = left.code
    except BaseException:
        import traceback

        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code if isinstance(code, int) else 1)


def _contents(run: Path) -> dict[str, Any]:
    """The tensors of both checkpoints, and what in the metrics is no time. In a process of its own: MindSpore that has
    loaded something is not to be forked.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reader)
        with open(writer, "w") as answer:
            json.dump(_digests(run), answer)
        os._exit(0)
    os.close(writer)
    with open(reader) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    found: dict[str, Any] = json.loads(text or "{}")
    return found


def _digests(run: Path) -> dict[str, Any]:
    import mindspore

    found: dict[str, Any] = {}
    for name in ("best.ckpt", "last.ckpt"):
        for key, value in mindspore.load_checkpoint(str(run / name), crc_check=True).items():
            if not isinstance(value, str):
                found[name + key] = hashlib.sha256(value.asnumpy().tobytes()).hexdigest()
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found["metrics"] = [[line[key] for key in ("epoch", "step", "loss", "lr", "val_loss")] for line in lines]
    return found


def run(folder: Path, count: int, seed: int, below: str = WORK, keep: int = 1) -> Iterator[Result]:
    """Make the set in `folder`, start the survey with the library preloaded, and yield what it finds."""
    built = Faults(folder)
    if not (folder / SET).exists():
        seal(folder / SET, {"train": 24, "val": 9}, shards=2)
    (folder / "state").write_bytes(STATE.pack(0, 0))
    environment = os.environ | {"LD_PRELOAD": str(built.library), "FAULT_STATE": str(folder / "state")}
    environment |= {"ONEDNN_MAX_CPU_ISA": "AVX2", "GLOG_v": "3", "FAULT_ROOT": "/nowhere"}
    arguments = [str(folder), str(count), str(seed), below, str(keep)]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.faults.trainer_points", "--preloaded", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield Result(**json.loads(line))
    assert process.returncode == 0, (folder / "err").read_text()


def _preloaded(folder: str, count: str, seed: str, below: str, keep: str) -> None:
    import trainer.loop  # noqa: F401  imported before the forks

    for result in survey(Path(folder), int(count), int(seed), below, int(keep)):
        print(json.dumps(asdict(result)), flush=True)


def _by_hand(folder: str, count: str = "40", seed: str = "0", below: str = WORK, keep: str = "1") -> None:
    counts: Counter[str] = Counter()
    for one in run(Path(folder).resolve(), int(count), int(seed), below, int(keep)):
        found = "; ".join(one.wrong) or "ok"
        print(f"{one.fault:8} {one.point:45} {one.code:4} {one.rerun:4} {found} | {one.said[:150]}", flush=True)
        counts[found.split(":")[0]] += 1
    print(counts)


if __name__ == "__main__":
    if sys.argv[1] == "--preloaded":
        _preloaded(*sys.argv[2:])
    else:
        _by_hand(*sys.argv[1:])
