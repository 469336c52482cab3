"""Resume a run at several steps: measure the time to the first new step, and compare the weights with a single run.

    python -m benchmarks.resume SET [--steps 50 500 5000] [--more 20] [--scratch DIR]

SET is a sealed dataset, best of some hundred small images: with a tiny model of its own the whole takes minutes. For
each step a run is killed there (SIGKILL) and started again. stdout: a JSON line per step. Ratios are to the first new
step of a new run, measured with each resume.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT

MODEL = """
from mindspore import nn

def make(num_classes):
    layers = [nn.Conv2d(3, 4, 4, stride=4, pad_mode="valid"), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()]
    return nn.SequentialCell([*layers, nn.Dense(4 * 8 * 8, num_classes)])
"""
OPTIONS = ("--device", "CPU", "--model", "resume_net:make", "--image-size", "32", "--batch-size", "8", "--ema", "0.9")


def train(work: Path, out: str, dataset: Path, epochs: int, save_every: int, kill_at: int = 0) -> float:
    """Run the trainer to its end, or until it is killed; return the seconds to its first logged step."""
    command = [sys.executable, "-m", "trainer", "run", str(dataset), "--out", out, *OPTIONS]
    command += ["--epochs", str(epochs), "--save-every", str(save_every), "--log-every", "1"]
    killing = {"TRAINER_KILL_AT": f"saved:{kill_at}"} if kill_at else {}
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{work}", "GLOG_v": "4", **killing}
    began, first = time.perf_counter(), 0.0
    with (work / "log").open("a") as log:
        process = subprocess.Popen(command, cwd=work, env=env, stdout=log, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        for line in process.stderr:
            log.write(line)
            if not first and line.startswith("epoch "):
                first = time.perf_counter() - began
        code = process.wait()
    if code != (-signal.SIGKILL if kill_at else 0):
        sys.exit(f"the trainer ended with {code}; see {work / 'log'}")
    return first


def tensors(run: Path) -> dict[str, bytes]:
    """Return the bytes of all tensors of both checkpoints, with optimizer and averages."""
    import mindspore

    found: dict[str, bytes] = {}
    for name in ("best.ckpt", "last.ckpt"):
        entries: dict[str, Any] = mindspore.load_checkpoint(str(run / name))
        found |= {f"{name}:{k}": v.asnumpy().tobytes() for k, v in entries.items() if not isinstance(v, str)}
    return found


def resume_at(step: int, more: int, dataset: Path, steps: int, work: Path) -> dict[str, float | bool]:
    """Kill a run after `step`, resume it for at least `more` steps, and compare it with an uninterrupted run."""
    epochs = -(-(step + more) // steps)
    begin_s = train(work, f"whole-{step}", dataset, epochs, step)
    train(work, f"killed-{step}", dataset, epochs, step, kill_at=step)
    resume_s = train(work, f"killed-{step}", dataset, epochs, step)
    return {
        "step": step,
        "steps_per_epoch": steps,
        "epochs": epochs,
        "replayed_batches": step % steps,
        "begin_s": round(begin_s, 1),
        "resume_s": round(resume_s, 1),
        "resume / begin": round(resume_s / begin_s, 2),
        "equal": tensors(work / f"whole-{step}") == tensors(work / f"killed-{step}"),
    }


def main() -> None:
    """Resume at each requested step."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.resume", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", type=Path, metavar="SET", help="A sealed dataset.")
    parser.add_argument("--steps", type=int, nargs="+", default=[50, 500, 5000], help="Where to kill.")
    parser.add_argument("--more", type=int, default=20, help="Steps to train after that, at least.  [default: 20]")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="Where to work.  [default: the system's]")
    asked = parser.parse_args()
    dataset = asked.dataset.resolve()
    rows = sum(json.loads((dataset / "dataset.json").read_text())["splits"]["train"]["class_rows"])
    with tempfile.TemporaryDirectory(prefix="resume-", dir=asked.scratch) as folder:
        work = Path(folder)
        (work / "resume_net.py").write_text(MODEL)
        for step in asked.steps:
            print(json.dumps(resume_at(step, asked.more, dataset, rows // 8, work)), flush=True)


if __name__ == "__main__":
    main()
