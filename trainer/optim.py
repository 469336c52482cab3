"""Learning-rate schedule as a pure function, and the table of optimizers."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

NORM_AND_BIAS = ("gamma", "beta", "bias")


@dataclass(frozen=True)
class Optimizer:
    """How an optimizer is made from parameter groups and a rate for each step, and its default peak rate and decay."""

    make: Callable[[list[dict[str, Any]], list[float]], Any]
    lr: float
    weight_decay: float


def cosine_with_warmup(peak: float, steps: int, warmup_steps: int) -> list[float]:
    """The rate of each of `steps` steps: a line from peak/warmup_steps up to `peak`, then half a cosine towards 0."""
    warmup_steps = min(warmup_steps, steps)
    rise = [peak * (step + 1) / warmup_steps for step in range(warmup_steps)]
    fall = steps - warmup_steps
    return rise + [peak * 0.5 * (1 + math.cos(math.pi * step / fall)) for step in range(fall)]


def decays(name: str) -> bool:
    """Whether weight decay applies to the parameter of that name: not to a norm's gamma and beta, nor to a bias."""
    return name.rsplit(".", 1)[-1] not in NORM_AND_BIAS


def parameter_groups(parameters: Sequence[Any], weight_decay: float) -> list[dict[str, Any]]:
    """The parameters in two groups, with and without decay, in MindSpore's form; their order is kept for the update."""
    groups = [
        {"params": [p for p in parameters if decays(p.name)], "weight_decay": weight_decay},
        {"params": [p for p in parameters if not decays(p.name)], "weight_decay": 0.0},
    ]
    return [*(group for group in groups if group["params"]), {"order_params": list(parameters)}]


def _sgd(groups: list[dict[str, Any]], rates: list[float]) -> Any:
    from mindspore import nn

    return nn.Momentum(groups, learning_rate=rates, momentum=0.9)


def _adamw(groups: list[dict[str, Any]], rates: list[float]) -> Any:
    from mindspore import nn

    # MindSpore's AdamW has no bias correction: its first steps are about three times too long, which warm-up absorbs.
    return nn.AdamWeightDecay(groups, learning_rate=rates)


OPTIMIZERS = {
    "sgd": Optimizer(_sgd, lr=0.1, weight_decay=1e-4),
    "adamw": Optimizer(_adamw, lr=3e-3, weight_decay=0.05),
}
