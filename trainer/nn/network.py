"""Builds the network of a run and proves, before anything is compiled, that its head fits the classes."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
from mindspore import Tensor, nn

from trainer.device.context import InEffect, pynative
from trainer.errors import TrainerError, first_line
from trainer.nn.models import MINDCV, MODELS, find_factory


def build_network(name: str, folder: Path, num_classes: int, image_size: int, effect: InEffect) -> Any:
    """The model `name`, in float32, made for `image_size` pixels where its factory takes that. One from outside
    (`module:factory`, looked for in `folder` too, or `mindcv:NAME`) is tried on two blank images first, since a head of
    another width trains without an error. Raises TrainerError.
    """
    factory = find_factory(name, folder)
    arguments = {"num_classes": num_classes}
    if "image_size" in inspect.signature(factory).parameters:
        arguments["image_size"] = image_size
    try:
        inspect.signature(factory).bind(**arguments)
    except TypeError:
        raise TrainerError(f"model '{name}' cannot be called as factory(num_classes={num_classes})") from None
    network = factory(**arguments)
    if name not in MODELS:
        _check_head(name, network, num_classes, image_size, effect)
    return network


def _check_head(name: str, network: Any, num_classes: int, image_size: int, effect: InEffect) -> None:
    if not isinstance(network, nn.Cell):
        raise TrainerError(f"model '{name}' returned a {type(network).__name__}, expected a mindspore.nn.Cell")
    network.set_train(False)
    with pynative(effect):
        try:
            logits = network(Tensor(np.zeros((2, 3, image_size, image_size), np.float32)))
        except (RuntimeError, ValueError) as error:
            if not name.startswith(MINDCV):  # the user's own code keeps its traceback
                raise
            raise TrainerError(
                f"model '{name}' does not take images of {image_size} pixels: {first_line(error)}"
            ) from error
    shape = getattr(logits, "shape", None)
    if shape != (2, num_classes):
        found = f"shape {shape}" if shape is not None else f"a {type(logits).__name__}"
        raise TrainerError(
            f"model '{name}' gives {found} for two images, expected (2, {num_classes}): "
            f"its head must have one output for each of the {num_classes} classes"
        )
