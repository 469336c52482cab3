"""Choose mixed-precision level and loss scale by device; training/assemble.py makes the MindSpore calls."""

from dataclasses import dataclass
from typing import Any

from trainer.config import RunConfig
from trainer.decisions import Call, Decision, Name, requested
from trainer.errors import WrongUsage

AMP_LEVELS = ("O0", "O1", "O2", "O3", "auto")
AMP_DTYPES = ("float16", "bfloat16")
STATIC = "mindspore.amp.StaticLossScaler"
FIRST_SCALE = 2**16  # a scaled gradient of 1 exceeds float16's maximum of 65504, which halves the scale
SCALE_FACTOR = 2
SCALE_WINDOW = 2000  # consecutive finite steps before the scale doubles
LARGEST_SCALE = 3.4e38  # largest float32, because the loss is scaled in float32


@dataclass(frozen=True)
class Precision:
    """Mixed-precision settings in effect, and the MindSpore calls for these settings.

    `amp_dtype` is the name of the low-precision type, which level O0 does not use. `scaler` is None if the loss is not
    scaled.
    """

    amp_level: str
    amp_dtype: str
    amp: Call
    scaler: Call | None
    decisions: tuple[Decision, ...]

    @property
    def fixed_scale(self) -> float | None:
        """The static loss scale, or None if the loss scale is dynamic or absent."""
        fixed = self.scaler is not None and self.scaler.name == STATIC
        return float(self.scaler.arguments["scale_value"]) if fixed and self.scaler is not None else None

    def dtype(self) -> Any:
        """Return the low-precision type as a MindSpore dtype."""
        return Name(f"mindspore.{self.amp_dtype}").resolve()


def decide_precision(config: RunConfig, device: str) -> Precision:
    """Return level, type and loss scale for `device`. Raises WrongUsage if the requested loss scale is invalid."""
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
        slow = ", though float16 takes about twice the time on CPU" if device == "CPU" and level != "O0" else ""
        return level, f"requested{norms}{slow}"
    if device == "CPU":
        return "O0", "float16 takes about twice the time on CPU"
    return "O2", "float16 on the matrix units; norm layers stay float32"


def _dtype(dtype: str | None, level: str, device: str) -> tuple[str, str]:
    if level == "O0":
        return dtype or "float16", "level O0 computes in float32"
    if device == "CPU" and dtype == "bfloat16":
        return "float16", "MindSpore has no bfloat16 kernels for CPU"
    if dtype == "bfloat16":
        return dtype, "requested; needs Atlas A2 or later"
    return "float16", "the loss scale keeps gradients in range"


def _scale_why(level: str, dtype: str) -> str:
    if level == "O0":
        return "float32 gradients do not underflow"
    if dtype == "bfloat16":
        return "bfloat16 has the range of float32"
    return (
        f"float16 gradients underflow; {FIRST_SCALE} at first, halved on overflow, doubled after {SCALE_WINDOW} steps"
    )


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
            f"loss scale '{scale}' is neither 'none', 'dynamic' nor a number from 1 to {LARGEST_SCALE:g} (the "
            "largest float32)"
        )
    return value


def overflow_advice(fixed_scale: float | None) -> str:
    """Return advice for a run with overflows; `fixed_scale` is the static loss scale, None if dynamic."""
    if fixed_scale is None:
        return "the scale was halved each time; try a lower --lr, more warm-up or --amp-level O0"
    if fixed_scale == 1.0:
        return "the loss was not scaled up; try a lower --lr, more warm-up or --amp-level O0"
    return f"try a --loss-scale below {fixed_scale:g}, or dynamic; if that does not help, a lower --lr"
