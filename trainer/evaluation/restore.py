"""A checkpoint made ready to score images: what `eval`, `predict` and `export` have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.config import RunConfig
from trainer.decisions import Decision
from trainer.device.context import InEffect, apply, decide, this_machine
from trainer.feed.pipeline import try_recipe
from trainer.feed.recipes import Recipe, find_recipe
from trainer.feed.threads import Demand
from trainer.nn.cast import mixed
from trainer.nn.network import build_network
from trainer.runs import checkpoint
from trainer.training.validation import padded_logits

# Settings that have no effect outside of training.
TRAINING_ONLY = ("loss scale", "sink", "sink size", "callbacks", "graph kernel", "jit level", "ranks")

Show = Callable[[tuple[Decision, ...]], None]


def in_effect(asked: RunConfig, show: Show, needs: Demand | None = None) -> InEffect:
    """What the device decides for `asked`, told to `show` without the lines that concern training alone."""
    effect = decide(asked, this_machine(asked.device), demand=needs)
    show(tuple(decision for decision in effect.decisions if decision.setting not in TRAINING_ONLY))
    return effect


@dataclass(frozen=True)
class LoadedModel:
    """A network in evaluation mode with the weights of `file`; `meta` says what they mean."""

    file: Path
    meta: checkpoint.Meta
    effect: InEffect
    network: Any
    recipe: Recipe

    def logits(self, images: NDArray[np.float32], batch_size: int) -> NDArray[Any]:
        """Logits (N, classes) of images (N, 3, S, S), N <= batch_size."""
        return padded_logits(self.network, images, batch_size)


def restore(file: Path, home: Path, effect: InEffect) -> LoadedModel:
    """Apply the device's settings and load the checkpoint; a user's model or recipe is looked for in `home`.

    To be called in a scratch folder. Raises ContractError when the file is damaged or does not fit its model.
    """
    apply(effect)
    weights, meta = checkpoint.load(file)
    network = build_network(meta.config.model, home, len(meta.classes), meta.pixels.size, effect)
    checkpoint.restore(network, weights, file)
    network = mixed(network, effect.precision, meta.config.keep_fp32)
    network.set_train(False)
    recipe = find_recipe(meta.config.recipe, home)
    try_recipe(meta.config.recipe, recipe, meta.pixels.size)
    return LoadedModel(file, meta, effect, network, recipe)
