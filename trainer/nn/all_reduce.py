"""What the ranks of a run share: gradients and loss in each step, BatchNorm's averages and counts after an epoch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from trainer.nn.tasks.classification import Scores

RUNNING = ("moving_mean", "moving_variance")  # BatchNorm's averages, which each rank gathers from its own images
PIECE = 1 << 20  # counts travel as float32 (all that MindSpore reduces on CPU), exact up to 2**24


class OverRanks(nn.Cell):  # type: ignore[misc]
    """Averages a step's loss and gradients over the ranks, so that all of them take the same step.

    The gradients of a loss that is a mean over N rows, averaged over R ranks, are those of the mean over N x R rows.
    """

    def __init__(self, parameters: Sequence[Parameter], ranks: int) -> None:
        super().__init__(auto_prefix=False)
        self.gradients = nn.DistributedGradReducer(parameters, mean=True, degree=ranks)
        self.sum = ops.AllReduce()
        self.share = 1.0 / ranks

    def construct(self, loss: Tensor, gradients: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Loss and gradients of the whole batch."""
        return self.sum(loss) * self.share, self.gradients(gradients)


class _Sum(nn.Cell):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(auto_prefix=False)
        self.sum = ops.AllReduce()

    def construct(self, values: Tensor) -> Tensor:
        return self.sum(values)


def average_statistics(network: nn.Cell, ranks: int) -> None:
    """Set BatchNorm's running averages to their means over the ranks, so that all ranks evaluate one model.

    Within a step each rank normalises by its own part of the batch. Every rank must call this.
    """
    own = [parameter for parameter in network.get_parameters() if parameter.name.endswith(RUNNING)]
    if not own:
        return
    flat = np.concatenate([parameter.asnumpy().ravel() for parameter in own]).astype(np.float32)
    mean = _Sum()(Tensor(flat)).asnumpy() / ranks
    ends = np.cumsum([parameter.size for parameter in own])
    for parameter, values in zip(own, np.split(mean, ends[:-1]), strict=True):
        parameter.set_data(Tensor(values.reshape(parameter.shape).astype(np.float32), parameter.dtype))


def sum_scores(scores: Scores) -> Scores:
    """The scores of all ranks together. Every rank must call this."""
    counts = [part for count in (scores.rows, scores.correct) for part in divmod(count, PIECE)]
    total: Any = _Sum()(Tensor(np.array([*counts, scores.loss_sum], np.float32))).asnumpy().astype(np.float64)
    rows, correct = (round(total[i] * PIECE + total[i + 1]) for i in (0, 2))
    return Scores(rows, correct, float(total[4]))
