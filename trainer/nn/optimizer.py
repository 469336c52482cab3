"""Learning-rate schedule, parameter groups and table of optimizers."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.errors import WrongUsage

NO_DECAY = ("gamma", "beta", "bias", "class_token", "positions")


@dataclass(frozen=True)
class Scaling:
    """Scaling of the learning rate by (batch size ratio) ** `exponent`. `how` describes the scaling in words."""

    exponent: float
    how: str


@dataclass(frozen=True)
class Optimizer:
    """Optimizer: `make(groups, rates)` takes the parameter groups and the learning rate of each update."""

    make: Callable[[list[dict[str, Any]], list[float]], Any]
    scaling: Scaling


def cosine_with_warmup(peak: float, steps: int, warmup_steps: int) -> list[float]:
    """Return the learning rates of `steps` updates: linear warm-up to `peak`, then cosine decay towards 0."""
    warmup_steps = min(warmup_steps, steps)
    rise = [peak * (step + 1) / warmup_steps for step in range(warmup_steps)]
    fall = steps - warmup_steps
    return rise + [peak * 0.5 * (1 + math.cos(math.pi * step / fall)) for step in range(fall)]


def decays(name: str) -> bool:
    """Return True if weight decay applies to parameter `name`; False for norms, biases, class tokens and positions."""
    return name.rsplit(".", 1)[-1] not in NO_DECAY


def has_prefix(name: str, prefix: str) -> bool:
    """Return True if the parameter or cell `name` is in the cell `prefix`; 'stages.12' is not in 'stages.1'."""
    return name == prefix or name.startswith(prefix + ".")


def parse_scales(texts: Sequence[str]) -> dict[str, float]:
    """Parse PREFIX=FACTOR texts. Raises WrongUsage if a text is malformed or a factor is not positive."""
    scales = {}
    for text in texts:
        prefix, equals, factor = text.rpartition("=")
        try:
            scales[prefix] = float(factor)
        except ValueError:
            equals = ""
        if not (equals and prefix and 0 < scales[prefix] < float("inf")):
            raise WrongUsage(f"--lr-scale {text}: expected PREFIX=FACTOR with a factor above 0, such as stages=0.1")
    return scales


def rate_scale(texts: Sequence[str]) -> Callable[[str], float]:
    """Return a function from a parameter name to the learning-rate factor of the longest matching prefix, or 1."""
    scales = parse_scales(texts)

    def scale(name: str) -> float:
        matching = [prefix for prefix in scales if has_prefix(name, prefix)]
        return scales[max(matching, key=len)] if matching else 1.0

    return scale


def parameter_groups(
    parameters: Sequence[Any],
    weight_decay: float,
    rates: Sequence[float] = (),
    scale: Callable[[str], float] = lambda name: 1.0,
) -> list[dict[str, Any]]:
    """Return MindSpore parameter groups, each with equal weight decay and learning rate.

    `scale` maps a parameter name to a factor for `rates`. A group with factor 1 has no rates of its own. The optimizer
    updates the parameters in the order of `parameters`.
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

    # MindSpore's AdamW has no bias correction, so the first updates are about three times too large. Warm-up absorbs
    # the large updates.
    return nn.AdamWeightDecay(groups, learning_rate=rates)


OPTIMIZERS = {
    "sgd": Optimizer(_sgd, Scaling(1.0, "linearly")),  # Goyal et al. 2017
    "adamw": Optimizer(_adamw, Scaling(0.5, "by the square root")),  # Krizhevsky 2014, Malladi et al. 2022
}
