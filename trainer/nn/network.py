"""Build the network of a run, and check the output shape before compilation."""

import inspect
from pathlib import Path

import numpy as np
from mindspore import Tensor, nn

from schemas.counting import many
from trainer.device.context import InEffect, pynative
from trainer.errors import TrainerError, first_line
from trainer.nn.models import MINDCV, MODELS, find_factory


def build_network(name: str, folder: Path, num_classes: int, image_size: int, effect: InEffect) -> nn.Cell:
    """Return the model `name` in float32 with `num_classes` outputs.

    The factory of the model also receives `image_size` in pixels if the factory has this argument. A user's module is
    also searched for in `folder`. A model that is not built in is first run on two blank images, because a head of
    another width would train without an error. Raises TrainerError if the model cannot be built.
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


def _check_head(name: str, network: nn.Cell, num_classes: int, image_size: int, effect: InEffect) -> None:
    if not isinstance(network, nn.Cell):
        raise TrainerError(f"model '{name}' returned a {type(network).__name__}, expected a mindspore.nn.Cell")
    network.set_train(False)
    with pynative(effect):
        try:
            logits = network(Tensor(np.zeros((2, 3, image_size, image_size), np.float32)))
        except (RuntimeError, ValueError) as error:
            if not name.startswith(MINDCV):  # an error in the user's own code keeps its traceback
                raise
            raise TrainerError(
                f"model '{name}' does not accept images of {image_size} pixels: {first_line(error)}"
            ) from error
    shape = getattr(logits, "shape", None)
    if shape != (2, num_classes):
        output = f"shape {shape}" if shape is not None else f"a {type(logits).__name__}"
        raise TrainerError(
            f"model '{name}' returns {output} for two images, expected (2, {num_classes}): "
            f"the head must have {many(num_classes, 'output')}"
        )
