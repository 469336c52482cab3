"""Precision of a run: mixed-precision level and loss scale, by device. Pure; the calls are made in loop.py."""

from dataclasses import dataclass
from typing import Any

from trainer.config import RunConfig
from trainer.decisions import Call, Decision, Name, requested
from trainer.errors import WrongUsage

AMP_LEVELS = ("O0", "O1", "O2", "O3", "auto")
AMP_DTYPES = ("float16", "bfloat16")
STATIC = "mindspore.amp.StaticLossScaler"
FIRST_SCALE = 2**16  # the largest float16 is 65504, so a gradient of 1 just survives; overflow halves it at once
SCALE_FACTOR = 2
SCALE_WINDOW = 2000  # finite steps in a row before the scale doubles
LARGEST_SCALE = 3.4e38  # of float32, in which the loss is scaled


@dataclass(frozen=True)
class Precision:
    """The level in effect, and the calls that put it there; `scaler` is None when the loss is not scaled.

    `amp_dtype` is the name of the low type, which level O0 does not use.
    """

    amp_level: str
    amp_dtype: str
    amp: Call
    scaler: Call | None
    decisions: tuple[Decision, ...]

    @property
    def fixed_scale(self) -> float | None:
        """The loss scale when it is a number that does not change, None otherwise."""
        fixed = self.scaler is not None and self.scaler.name == STATIC
        return float(self.scaler.arguments["scale_value"]) if fixed and self.scaler is not None else None

    def dtype(self) -> Any:
        """The low type as MindSpore's object."""
        return Name(f"mindspore.{self.amp_dtype}").resolve()


def decide_precision(config: RunConfig, device: str) -> Precision:
    """Level, type and loss scale for `device`; raises TrainerError for a loss scale that is none of the three kinds."""
    level, why = _level(config.amp_level, device)
    dtype, dtype_why = _dtype(config.amp_dtype, level, device)
    narrow = level != "O0" and dtype == "float16"
    scale = config.loss_scale or ("dynamic" if narrow else "none")
    scaler = _scaler(scale)
    scale_why = "requested" if config.loss_scale else _scale_why(level, dtype)
    low_type = {} if dtype == "float16" or level == "O0" else {"dtype": Name(f"mindspore.{dtype}")}
    shown = "float32" if level == "O0" else dtype
    return Precision(
        amp_level=level,
        amp_dtype=dtype,
        amp=Call("mindspore.amp.auto_mixed_precision", {"amp_level": level, **low_type}),
        scaler=scaler,
        decisions=(
            Decision("amp level", requested(config.amp_level), level, why),
            Decision("amp dtype", requested(config.amp_dtype), shown, dtype_why),
            Decision("loss scale", requested(config.loss_scale), scale, scale_why),
        ),
    )


def _level(level: str | None, device: str) -> tuple[str, str]:
    if level is not None:
        norms = "; norm layers too" if level == "O3" else ""
        slow = ", though float16 costs about twice on CPU" if device == "CPU" and level != "O0" else ""
        return level, f"requested{norms}{slow}"
    if device == "CPU":
        return "O0", "float16 costs about twice on CPU"
    return "O2", "half precision on the matrix units; norm layers stay float32"


def _dtype(dtype: str | None, level: str, device: str) -> tuple[str, str]:
    if level == "O0":
        return dtype or "float16", "level O0 lowers nothing"
    if device == "CPU" and dtype == "bfloat16":
        return "float16", "MindSpore has no bfloat16 kernels for CPU, so it is float16 here"
    if dtype == "bfloat16":
        return dtype, "requested; Atlas A2 and later have it"
    return "float16", "the range is kept by the loss scale"


def _scale_why(level: str, dtype: str) -> str:
    if level == "O0":
        return "float32 gradients do not underflow"
    if dtype == "bfloat16":
        return "bfloat16 has the range of float32"
    return f"float16 gradients underflow; {FIRST_SCALE} at first, halved on overflow, doubled in {SCALE_WINDOW} steps"


def _scaler(scale: str) -> Call | None:
    if scale == "none":
        return None
    if scale == "dynamic":
        arguments = {"scale_value": FIRST_SCALE, "scale_factor": SCALE_FACTOR, "scale_window": SCALE_WINDOW}
        return Call("mindspore.amp.DynamicLossScaler", arguments)
    return Call(STATIC, {"scale_value": _static(scale)})


def _static(scale: str) -> float:
    try:
        value = float(scale)
    except ValueError:
        value = 0.0
    if not 1.0 <= value <= LARGEST_SCALE:
        raise WrongUsage(
            f"loss scale '{scale}' is neither 'none', 'dynamic' nor a number from 1 to {LARGEST_SCALE:g}, which is as "
            "large as float32 goes"
        )
    return value


def overflow_advice(fixed_scale: float | None) -> str:
    """What to try when updates are skipped because gradients overflow; `fixed_scale` is None for a dynamic scale."""
    if fixed_scale is None:
        return "the scale was halved each time; try a lower --lr, more warm-up or --amp-level O0"
    if fixed_scale == 1.0:
        return "the loss was not scaled up; try a lower --lr, more warm-up or --amp-level O0"
    return f"try a --loss-scale below {fixed_scale:g}, or dynamic; if that does not help, a lower --lr"
