"""`trainer` as a process of its own."""

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from tests.examples import ROOT
from trainer.device.kernels import DNNL, ONEDNN, OURS

QUICK = ["--device", "CPU", "--workers", "1", "--image-size", "32", "--batch-size", "16"]


def start(
    *arguments: object,
    cwd: Path,
    kill_at: str = "",
    cap: str = "",
    cores: Collection[int] = (),
    **more: str,
) -> "subprocess.Popen[str]":
    """Start the program; `cores` are those that it may run on, all when empty. `more` is added to the environment."""
    root = ROOT
    left_out = ("GLOG_v", ONEDNN, DNNL, OURS)
    environment = {key: value for key, value in os.environ.items() if key not in left_out} | {
        "PYTHONPATH": str(root),
        "TRAINER_KILL_AT": kill_at,
        **more,
        ONEDNN: cap,
    }
    command = [sys.executable, "-m", "trainer", *map(str, arguments)]
    if cores:
        command = ["taskset", "-c", ",".join(map(str, cores)), *command]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=cwd, env=environment)


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err
