"""Precision of a run: mixed-precision level and loss scale, by device. Pure; the calls are made in loop.py."""

from dataclasses import dataclass

from trainer.config import RunConfig
from trainer.decision import Call, Decision, asked
from trainer.errors import TrainerError

AMP_LEVELS = ("O0", "O1", "O2", "O3", "auto")
FIRST_SCALE = 2**16  # the largest float16 is 65504, so a gradient of 1 just survives; overflow halves it at once
SCALE_FACTOR = 2
SCALE_WINDOW = 2000  # finite steps in a row before the scale doubles


@dataclass(frozen=True)
class Precision:
    """The level in effect, and the calls that put it there; `scaler` is None when the loss is not scaled."""

    amp_level: str
    amp: Call
    scaler: Call | None
    decisions: tuple[Decision, ...]


def decide_precision(config: RunConfig, device: str) -> Precision:
    """Level and loss scale for `device`; raises TrainerError for a loss scale that is none of the three kinds."""
    level, why = _level(config.amp_level, device)
    scale = config.loss_scale or ("none" if level == "O0" else "dynamic")
    scaler = _scaler(scale)
    scale_why = "asked for" if config.loss_scale else _scale_why(level)
    return Precision(
        amp_level=level,
        amp=Call("mindspore.amp.auto_mixed_precision", {"amp_level": level}),
        scaler=scaler,
        decisions=(
            Decision("amp level", asked(config.amp_level), level, why),
            Decision("loss scale", asked(config.loss_scale), scale, scale_why),
        ),
    )


def _level(level: str | None, device: str) -> tuple[str, str]:
    if level is not None:
        slow = device == "CPU" and level != "O0"
        return level, "asked for, though float16 costs about twice on CPU" if slow else "asked for"
    if device == "CPU":
        return "O0", "float16 costs about twice on CPU"
    return "O2", "float16 on the matrix units; BatchNorm and LayerNorm stay float32"


def _scale_why(level: str) -> str:
    if level == "O0":
        return "float32 gradients do not underflow"
    return f"float16 gradients underflow; {FIRST_SCALE} at first, halved on overflow, doubled in {SCALE_WINDOW} steps"


def _scaler(scale: str) -> Call | None:
    if scale == "none":
        return None
    if scale == "dynamic":
        arguments = {"scale_value": FIRST_SCALE, "scale_factor": SCALE_FACTOR, "scale_window": SCALE_WINDOW}
        return Call("mindspore.amp.DynamicLossScaler", arguments)
    return Call("mindspore.amp.StaticLossScaler", {"scale_value": _static(scale)})


def _static(scale: str) -> float:
    try:
        value = float(scale)
    except ValueError:
        value = 0.0
    if not 1.0 <= value < float("inf"):
        raise TrainerError(f"loss scale '{scale}' is neither 'none', 'dynamic' nor a number of at least 1")
    return value
