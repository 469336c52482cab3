"""CPU instruction set of MindSpore's convolutions, limited by a cap that oneDNN reads once.

MindSpore 2.9 and later contain oneDNN 3; 2.7 and 2.8 contain oneDNN 2.2. oneDNN 3 prefers `jit_uni_ncsp` if AVX-512 is
allowed. With MindSpore's plain weight layout, `jit_uni_ncsp` is the reference path, 27 to 70 times slower than
`gemm:jit` (measured on Intel and AMD CPUs). oneDNN uses `gemm:jit` if the cap is AVX2. No other cap was faster on a
small model.
"""

import importlib.metadata
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from schemas.process.host import INSTRUCTION_SETS, instruction_set
from trainer.decisions import AS_STARTED, Decision, StartSettings

ONEDNN, DNNL = "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"  # DNNL is the older spelling
OURS = "TRAINER_MAX_CPU_ISA"  # the trainer's own cap, so that a child process recognises a cap set by the user
FIRST_SLOW = (2, 9)  # MindSpore's first version with oneDNN 3
LEVELS = tuple(INSTRUCTION_SETS)  # narrowest instruction set first
AVX2, AVX512 = "AVX2", "AVX512_CORE"
OTHER_CPU = "not x86"
# oneDNN levels that add 8- and 16-bit instructions, which MindSpore's float32 convolutions do not use.
SYNONYMS = {"AVX2_VNNI": AVX2, "AVX2_VNNI_2": AVX2}
NOT_RECORDED = "this run was started by a version that did not record its CPU kernels"
INEXACT = "the weights will differ in the last bits from those of an uninterrupted run"


@dataclass(frozen=True)
class Processor:
    """The CPU and the user's cap on its instruction set.

    `best` is the widest instruction set of the CPU, None if the CPU is not x86. `variable` is the environment variable
    of the user's cap, `value` its value. `mindspore` is the installed version. Unknown or unset strings are empty.
    """

    best: str | None = None
    variable: str = ""
    value: str = ""
    mindspore: str = ""

    @property
    def is_slow(self) -> bool:
        """True if convolutions use the slow reference path when no cap is set."""
        return self.best == AVX512 and _has_onednn_3(self.mindspore)


def _has_onednn_3(mindspore: str) -> bool:
    version = re.match(r"(\d+)\.(\d+)", mindspore)
    return version is None or (int(version[1]), int(version[2])) >= FIRST_SLOW


@dataclass(frozen=True)
class Kernels:
    """CPU kernels in effect.

    `level` is the instruction set. `cap` is the cap that the trainer sets, or None. `warning` is the reason why a
    resume cannot be exact, or an empty string.
    """

    cap: str | None
    level: str
    decision: Decision
    warning: str = ""


def this_processor(environment: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Processor:
    """Return the CPU, the cap in `environment` and the installed version of MindSpore. MindSpore is not imported."""
    try:
        version = importlib.metadata.version("mindspore")
    except importlib.metadata.PackageNotFoundError:  # installed under another name
        version = ""
    variable = _variable_of_user(environment, version)
    return Processor(instruction_set(root), variable, environment.get(variable, ""), version)


def _variable_of_user(environment: Mapping[str, str], version: str) -> str:
    # oneDNN treats an empty value as unset (measured on oneDNN 3.10); oneDNN 2.2 reads only the older spelling.
    for name in (ONEDNN, DNNL) if _has_onednn_3(version) else (DNNL,):
        value = environment.get(name, "")
        if value and value != environment.get(OURS):
            return name
    return ""


def decide_kernels(processor: Processor, start: StartSettings | None = None) -> Kernels:
    """Return the kernels set by the user, else the kernels of the run to resume (`start`), else the fastest kernels."""
    chosen = _set_by_user(processor) or _as_started(processor, start) or _fast(processor)
    return replace(chosen, warning=_difference(chosen.level, processor, start))


def _set_by_user(processor: Processor) -> Kernels | None:
    if not processor.variable:
        return None
    level = _lower(processor.best, SYNONYMS.get(processor.value.upper(), processor.value.upper()))
    why = f"{processor.variable} is set"
    if processor.is_slow and level == AVX512:
        why += f"; convolutions use oneDNN's reference path, many times slower than with {AVX2}"
    return Kernels(None, level, Decision("CPU kernels", processor.value, level, why))


def _lower(best: str | None, value: str) -> str:
    if best is None:
        return OTHER_CPU
    return min(best, value, key=LEVELS.index) if value in LEVELS else best  # oneDNN ignores unknown names


def _as_started(processor: Processor, start: StartSettings | None) -> Kernels | None:
    if start is None or start.mindspore != processor.mindspore or start.level not in LEVELS:
        return None
    if start.level == _fast(processor).level or _lower(processor.best, start.level) != start.level:
        return None
    decision = Decision("CPU kernels", "default", start.level, AS_STARTED, notable=True)
    return Kernels(start.level, start.level, decision)


def _fast(processor: Processor) -> Kernels:
    if processor.is_slow:
        version = processor.mindspore or "this version"
        why = f"with AVX-512 the convolutions of MindSpore {version} use oneDNN's reference path, many times slower"
        return Kernels(AVX2, AVX2, Decision("CPU kernels", "default", AVX2, why, notable=True))
    level = processor.best or OTHER_CPU
    why = "the CPU's widest" if processor.best else "chosen by oneDNN"
    return Kernels(None, level, Decision("CPU kernels", "default", level, why))


def _difference(level: str, processor: Processor, start: StartSettings | None) -> str:
    if start is None:
        return ""
    if start.mindspore and processor.mindspore and start.mindspore != processor.mindspore:
        return f"this run was started on MindSpore {start.mindspore}, now it is {processor.mindspore}; {INEXACT}"
    if not start.level:
        unsure = processor.is_slow and level != AVX512
        return f"{NOT_RECORDED}; unless the kernels were {level}, {INEXACT}" if unsure else ""
    if start.level == level:
        return ""
    if _lower(processor.best, start.level) != start.level:
        return f"this run was started with CPU kernels '{start.level}', which this CPU lacks; with '{level}' {INEXACT}"
    now = f"{processor.variable}={processor.value} selects '{level}'"
    return f"this run was started with CPU kernels '{start.level}', but {now}; {INEXACT}, so unset the variable"


def use_kernels(kernels: Kernels) -> None:
    """Set the cap for this process and its children.

    Call this function before the first operator runs, because oneDNN reads the cap once.
    """
    if kernels.cap is not None:
        os.environ.update(dict.fromkeys((ONEDNN, DNNL, OURS), kernels.cap))
