"""Learning-rate schedule as a pure function, and the table of optimizers."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.errors import WrongUsage

NO_DECAY = ("gamma", "beta", "bias", "class_token", "positions")


@dataclass(frozen=True)
class Scaling:
    """How a peak rate follows the images per update: times their ratio to the power `exponent`; `how` says so."""

    exponent: float
    how: str


@dataclass(frozen=True)
class Optimizer:
    """How an optimizer is made from parameter groups and a rate for each step, and how its rate follows the batch."""

    make: Callable[[list[dict[str, Any]], list[float]], Any]
    scaling: Scaling


def cosine_with_warmup(peak: float, steps: int, warmup_steps: int) -> list[float]:
    """The rate of each of `steps` steps: a line from peak/warmup_steps up to `peak`, then half a cosine towards 0."""
    warmup_steps = min(warmup_steps, steps)
    rise = [peak * (step + 1) / warmup_steps for step in range(warmup_steps)]
    fall = steps - warmup_steps
    return rise + [peak * 0.5 * (1 + math.cos(math.pi * step / fall)) for step in range(fall)]


def decays(name: str) -> bool:
    """Whether weight decay applies to the parameter of that name: not to a norm's gamma and beta, to a bias, or to what
    a transformer learns of positions.
    """
    return name.rsplit(".", 1)[-1] not in NO_DECAY


def begins(name: str, prefix: str) -> bool:
    """Whether parameter or cell `name` is `prefix` or inside it: 'stages.1' holds 'stages.1.bias', not 'stages.12'."""
    return name == prefix or name.startswith(prefix + ".")


def parse_scales(texts: Sequence[str]) -> dict[str, float]:
    """PREFIX=FACTOR as a table; raises TrainerError for another form or a factor that is not above 0."""
    scales = {}
    for text in texts:
        prefix, equals, factor = text.rpartition("=")
        try:
            scales[prefix] = float(factor)
        except ValueError:
            equals = ""
        if not (equals and prefix and 0 < scales[prefix] < float("inf")):
            raise WrongUsage(f"--lr-scale {text}: expected PREFIX=FACTOR, such as stages=0.1, the factor above 0")
    return scales


def rate_scale(texts: Sequence[str]) -> Callable[[str], float]:
    """The factor on the rate of a parameter by its name: that of the longest prefix it begins with, else 1."""
    scales = parse_scales(texts)

    def scale(name: str) -> float:
        fitting = [prefix for prefix in scales if begins(name, prefix)]
        return scales[max(fitting, key=len)] if fitting else 1.0

    return scale


def parameter_groups(
    parameters: Sequence[Any],
    weight_decay: float,
    rates: Sequence[float] = (),
    scale: Callable[[str], float] = lambda name: 1.0,
) -> list[dict[str, Any]]:
    """The parameters in groups of equal decay and rate, in MindSpore's form; their order is kept for the update.

    `scale` gives the factor on `rates` of a parameter by its name; where all are 1 no group has a rate of its own.
    """
    table: dict[tuple[float, float], list[Any]] = {}
    for parameter in parameters:
        decay = weight_decay if decays(parameter.name) else 0.0
        table.setdefault((decay, scale(parameter.name)), []).append(parameter)
    groups = [
        {"params": members, "weight_decay": decay}
        | ({} if factor == 1.0 else {"lr": [rate * factor for rate in rates]})
        for (decay, factor), members in sorted(table.items(), key=lambda entry: entry[0], reverse=True)
    ]
    return [*groups, {"order_params": list(parameters)}]


def _sgd(groups: list[dict[str, Any]], rates: list[float]) -> Any:
    from mindspore import nn

    return nn.Momentum(groups, learning_rate=rates, momentum=0.9)


def _adamw(groups: list[dict[str, Any]], rates: list[float]) -> Any:
    from mindspore import nn

    # MindSpore's AdamW has no bias correction: its first steps are about three times too long, which warm-up absorbs.
    return nn.AdamWeightDecay(groups, learning_rate=rates)


OPTIMIZERS = {
    "sgd": Optimizer(_sgd, Scaling(1.0, "linearly")),  # Goyal et al. 2017
    "adamw": Optimizer(_adamw, Scaling(0.5, "by the square root")),  # Krizhevsky 2014, Malladi et al. 2022
}
