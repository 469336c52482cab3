"""Which implementation oneDNN takes for a small convolution, forward and backward: asked of a process of its own.

oneDNN chooses once per process, and says what it chose when ONEDNN_VERBOSE is set. The child takes 2 to 3 s.
"""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.config import RunConfig
from trainer.device.context import Machine, apply, decide
from trainer.device.kernels import AVX2, AVX512, DNNL, ONEDNN, OURS, Kernels

REFERENCE = "ref:any"  # in the name of an implementation: plain loops, without vector instructions
EVERYTHING = "DEFAULT"  # the cap that caps nothing
CHANNELS, FILTERS, SIDE, BATCH = 24, 48, 16, 4
ROUNDS = 3
DEADLINE_S = 60.0  # on a machine with much other work
TOOK = "milliseconds "

# {home} is where this package lies, which need not be on the path.
CHILD = """import sys
sys.path[0] = {home!r}
from trainer.doctor.convolution import run_here
run_here()
"""


@dataclass(frozen=True)
class Convolution:
    """One convolution under the instruction set `level`: the names that oneDNN gives the implementations that it took,
    and the milliseconds that forward and backward take together.
    """

    level: str
    implementations: tuple[str, ...]
    milliseconds: float

    @property
    def is_reference(self) -> bool:
        """Return True if a part of it runs on the reference path."""
        return any(is_reference(name) for name in self.implementations)


@dataclass(frozen=True)
class Convolutions:
    """The convolution as it is in effect, and the one to compare it with: under the cap that a user should take, or
    without the cap that the trainer has set. None where neither applies.
    """

    in_effect: Convolution
    other: Convolution | None = None


def is_reference(implementation: str) -> bool:
    """Return True for an implementation on oneDNN's reference path, such as `jit_uni_ncsp:conv+ref:any`."""
    return REFERENCE in implementation


def look_at_convolutions(kernels: Kernels) -> Convolutions | None:
    """Measure a convolution in children of this process, after `kernels` were put in effect here: one or two of them.

    None when a child does not come to its end.
    """
    now = measure_in_child(kernels.level, {})
    if now is None:
        return None
    if now.is_reference and kernels.level == AVX512:
        return Convolutions(now, measure_in_child(AVX2, dict.fromkeys((ONEDNN, DNNL), AVX2)))
    if kernels.cap is not None:
        return Convolutions(now, measure_in_child(AVX512, dict.fromkeys((ONEDNN, DNNL, OURS), EVERYTHING)))
    return Convolutions(now)


def measure_in_child(level: str, variables: dict[str, str]) -> Convolution | None:
    """Measure the convolution in a child process with these environment variables; None if the child fails."""
    home = str(Path(__file__).resolve().parents[1])
    verbose = {"ONEDNN_VERBOSE": "1", "DNNL_VERBOSE": "1"}  # the second for oneDNN 2
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
    """What a child has printed under `level`; None unless there is the time and a convolution of oneDNN's."""
    names, took = implementations(printed), None
    for line in printed.splitlines():
        if line.startswith(TOOK):
            took = float(line.removeprefix(TOOK))
    return Convolution(level, names, took) if names and took is not None else None


def implementations(verbose: str) -> tuple[str, ...]:
    """The implementations of the convolutions in what ONEDNN_VERBOSE=1 has printed, each once, sorted.

    A line has `exec`, the engine, the primitive and the implementation; what stands before them differs by version.
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
    """Run the convolution in this process, under whatever its environment says, and print how long it took."""
    import mindspore
    import numpy as np

    apply(decide(RunConfig("", device="CPU", mode="pynative"), Machine(ascend=False, cores=1)))
    layer = mindspore.nn.Conv2d(CHANNELS, FILTERS, 3, pad_mode="same")
    images = mindspore.Tensor(np.ones((BATCH, CHANNELS, SIDE, SIDE), np.float32))
    gradients = mindspore.grad(layer, grad_position=0, weights=layer.trainable_params())

    def round_s() -> float:
        began = time.perf_counter()
        of_images, of_weights = gradients(images)
        _wait_for(of_images, *of_weights)
        return time.perf_counter() - began

    round_s()  # makes the primitives
    sys.stdout.write(f"\n{TOOK}{1000 * min(round_s() for _ in range(ROUNDS))}\n")


def _wait_for(*tensors: Any) -> None:
    for tensor in tensors:
        tensor.asnumpy()
