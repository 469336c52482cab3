"""Load a checkpoint for inference by `eval`, `predict` and `export`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.errors import ContractError
from trainer.config import RunConfig
from trainer.decisions import Decision
from trainer.device.context import InEffect, apply, decide, this_machine
from trainer.feed.pipeline import try_recipe
from trainer.feed.recipes import Recipe, find_recipe
from trainer.feed.threads import Demand
from trainer.nn.cast import mixed
from trainer.nn.network import build_network
from trainer.nn.tasks import find_task
from trainer.nn.tasks.task import Task
from trainer.runs import checkpoint
from trainer.training.outputs import padded_outputs

# Settings that have no effect outside of training.
TRAINING_ONLY = ("loss scale", "sink", "sink size", "callbacks", "graph kernel", "jit level", "ranks")

Show = Callable[[tuple[Decision, ...]], None]


def in_effect(config: RunConfig, show: Show, needs: Demand | None = None) -> InEffect:
    """Return the settings in effect for `config`. `show` is called with the decisions that matter for inference."""
    effect = decide(config, this_machine(config.device), demand=needs)
    show(tuple(decision for decision in effect.decisions if decision.setting not in TRAINING_ONLY))
    return effect


@dataclass(frozen=True)
class LoadedModel:
    """A network in evaluation mode with the weights of the checkpoint `file`, whose metadata is `meta`."""

    file: Path
    meta: checkpoint.Meta
    effect: InEffect
    network: Any
    recipe: Recipe

    @property
    def task(self) -> Task:
        """The task for the record kind of the training data."""
        return find_task(self.meta.kind)

    def require_classes(self, command: str) -> None:
        """Raise ContractError unless the outputs give probabilities of classes."""
        if self.task.probabilities is None:
            raise ContractError(f"'trainer {command}' does not support {self.file}: its kind is '{self.meta.kind}'")

    def logits(self, images: NDArray[np.float32], batch_size: int) -> NDArray[Any]:
        """Return the network's output (N, width) for images (N, 3, S, S), N <= batch_size."""
        return padded_outputs(self.network, images, batch_size)


def restore(file: Path, home: Path, effect: InEffect) -> LoadedModel:
    """Apply the device settings and load a checkpoint. A user's model or recipe is searched for in `home`.

    Call this function in a scratch folder. Raises ContractError if the file is damaged or does not fit its model.
    """
    apply(effect)
    weights, meta = checkpoint.load(file)
    outputs = find_task(meta.kind).outputs(meta.classes)
    network = build_network(meta.config.model, home, outputs, meta.pixels.size, effect)
    checkpoint.restore(network, weights, file)
    network = mixed(network, effect.precision, meta.config.keep_fp32)
    network.set_train(False)
    recipe = find_recipe(meta.config.recipe, home)
    try_recipe(meta.config.recipe, recipe, meta.pixels.size)
    return LoadedModel(file, meta, effect, network, recipe)
