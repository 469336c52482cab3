"""Validation of a network in training."""

from collections.abc import Callable
from typing import Any

import numpy as np
from mindspore import Tensor
from numpy.typing import NDArray

from trainer.nn.tasks.classification import Scores, score


def evaluate_network(network: Any, batches: Any, batch_size: int, each_batch: Callable[[], None]) -> Scores:
    """Score a network over (images, labels) batches; leaves it in evaluation mode. `each_batch` may raise to stop."""
    network.set_train(False)
    total = Scores()
    for images, labels in batches.create_tuple_iterator(num_epochs=1, output_numpy=True):
        total += score(padded_logits(network, images, batch_size), labels)
        each_batch()
    return total


def padded_logits(network: Any, images: NDArray[np.float32], batch_size: int) -> NDArray[Any]:
    """The network's output for up to `batch_size` images, (N, classes).

    One shape for all batches: a smaller last one would be compiled again, which takes minutes on Ascend.
    """
    missing = batch_size - len(images)
    full = np.pad(images, [(0, missing), (0, 0), (0, 0), (0, 0)]) if missing else images
    logits: NDArray[Any] = network(Tensor(full)).asnumpy()
    return logits[: len(images)]
