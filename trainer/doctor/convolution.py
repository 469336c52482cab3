"""Find out in a child process which implementation oneDNN uses for a small convolution, forward and backward.

oneDNN chooses once per process, and prints its choice if ONEDNN_VERBOSE is set. The child takes 2 to 3 s.
"""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from trainer.config import RunConfig
from trainer.device.context import Machine, apply, decide
from trainer.device.kernels import AVX2, AVX512, DNNL, ONEDNN, OURS, Kernels

REFERENCE = "ref:any"  # part of the name of an implementation without vector instructions
NO_LIMIT = "DEFAULT"
CHANNELS, FILTERS, SIDE, BATCH = 24, 48, 16, 4
ROUNDS = 3
DEADLINE_S = 60.0  # long enough on a busy machine
TOOK = "milliseconds "

# {home} is the folder of this package, which may not be on the path.
CHILD = """import sys
sys.path[0] = {home!r}
from trainer.doctor.convolution import run_here
run_here()
"""


@dataclass(frozen=True)
class Convolution:
    """Convolution with the instruction set `level`: oneDNN's implementations, and the time of forward plus backward."""

    level: str
    implementations: tuple[str, ...]
    milliseconds: float

    @property
    def is_reference(self) -> bool:
        """Return True if forward or backward runs on the reference path."""
        return any(is_reference(name) for name in self.implementations)


@dataclass(frozen=True)
class Convolutions:
    """The convolution in effect, and another convolution: with a better limit, without the trainer's limit, or None."""

    in_effect: Convolution
    other: Convolution | None = None


def is_reference(implementation: str) -> bool:
    """Return True for an implementation on oneDNN's reference path, such as `jit_uni_ncsp:conv+ref:any`."""
    return REFERENCE in implementation


def measure_convolutions(kernels: Kernels) -> Convolutions | None:
    """Measure convolutions in child processes. `kernels` must be in effect. Return None if the first child fails."""
    now = measure_in_child(kernels.level, {})
    if now is None:
        return None
    if now.is_reference and kernels.level == AVX512:
        return Convolutions(now, measure_in_child(AVX2, dict.fromkeys((ONEDNN, DNNL), AVX2)))
    if kernels.cap is not None:
        return Convolutions(now, measure_in_child(AVX512, dict.fromkeys((ONEDNN, DNNL, OURS), NO_LIMIT)))
    return Convolutions(now)


def measure_in_child(level: str, variables: dict[str, str]) -> Convolution | None:
    """Measure the convolution in a child process with environment `variables`. Return None if the child fails."""
    home = str(Path(__file__).resolve().parents[2])
    verbose = {"ONEDNN_VERBOSE": "1", "DNNL_VERBOSE": "1"}  # oneDNN 2 reads the second name
    command = [sys.executable, "-c", CHILD.format(home=home)]
    try:
        done = subprocess.run(
            command,
            env=os.environ | verbose | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            errors="replace",
            timeout=DEADLINE_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else read_report(level, done.stdout)


def read_report(level: str, printed: str) -> Convolution | None:
    """Return the convolution that a child with `level` printed, or None if its time or implementation is missing."""
    names, milliseconds = implementations(printed), None
    for line in printed.splitlines():
        if line.startswith(TOOK):
            milliseconds = float(line.removeprefix(TOOK))
    return Convolution(level, names, milliseconds) if names and milliseconds is not None else None


def implementations(verbose: str) -> tuple[str, ...]:
    """Return the implementations of convolutions in the output of ONEDNN_VERBOSE=1, each once, sorted.

    A line has `exec`, the engine, the primitive and the implementation. The fields before `exec` differ by version.
    """
    found = set()
    for line in verbose.splitlines():
        fields = line.split(",")
        if "exec" in fields:
            primitive, name = [*fields[fields.index("exec") + 2 :], "", ""][:2]
            if primitive == "convolution":
                found.add(name)
    return tuple(sorted(found))


def run_here() -> None:
    """Run the convolution in this process and print its time. Environment variables set the limit."""
    import mindspore
    import numpy as np

    apply(decide(RunConfig("", device="CPU", mode="pynative"), Machine(ascend=False, cores=1)))
    layer = mindspore.nn.Conv2d(CHANNELS, FILTERS, 3, pad_mode="same")
    images = mindspore.Tensor(np.ones((BATCH, CHANNELS, SIDE, SIDE), np.float32))
    gradients = mindspore.grad(layer, grad_position=0, weights=layer.trainable_params())

    def round_s() -> float:
        began = time.perf_counter()
        of_images, of_weights = gradients(images)
        for gradient in (of_images, *of_weights):
            gradient.asnumpy()  # waits for the result
        return time.perf_counter() - began

    round_s()  # creates the primitives
    sys.stdout.write(f"\n{TOOK}{1000 * min(round_s() for _ in range(ROUNDS))}\n")
