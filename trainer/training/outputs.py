"""Validation of the network during training."""

from collections.abc import Callable
from typing import Any

import numpy as np
from mindspore import Tensor
from numpy.typing import NDArray

from trainer.nn.tasks.task import Scores, Task


def evaluate_network(
    network: Any, task: Task, batches: Any, batch_size: int, after_batch: Callable[[], None]
) -> Scores:
    """Return the scores of a network over batches of (images, targets). The network stays in evaluation mode.

    `after_batch` is called after each batch and may raise an exception to stop.
    """
    network.set_train(False)
    scores = task.no_scores
    for images, targets in batches.create_tuple_iterator(num_epochs=1, output_numpy=True):
        scores += task.score(padded_outputs(network, images, batch_size), targets)
        after_batch()
    return scores


def padded_outputs(network: Any, images: NDArray[np.float32], batch_size: int) -> NDArray[Any]:
    """Return the network's output (N, width) for images (N, 3, S, S), N <= `batch_size`.

    Smaller batches are padded, because MindSpore compiles for each new shape, which takes minutes on Ascend.
    """
    missing = batch_size - len(images)
    full = np.pad(images, [(0, missing), (0, 0), (0, 0), (0, 0)]) if missing else images
    outputs: NDArray[Any] = network(Tensor(full)).asnumpy()
    return outputs[: len(images)]
