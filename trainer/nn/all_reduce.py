"""Collective operations across ranks: loss and gradients per step, BatchNorm statistics and scores per epoch."""

from collections.abc import Sequence
from dataclasses import astuple

import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from trainer.nn.tasks.task import Sums

RUNNING = ("moving_mean", "moving_variance")  # BatchNorm's running averages, computed by each rank from its own images
PIECE = 1 << 20  # integers are split, because float32 sums (the only type on CPU) are exact up to 2**24


class OverRanks(nn.Cell):  # type: ignore[misc]
    """Cell that averages loss and gradients over the ranks, so that all ranks make the same update.

    The loss of each rank is a mean over N rows. With R ranks, the averaged gradients are the gradients of the mean over
    N x R rows.
    """

    def __init__(self, parameters: Sequence[Parameter], ranks: int) -> None:
        super().__init__(auto_prefix=False)
        self.gradients = nn.DistributedGradReducer(parameters, mean=True, degree=ranks)
        self.sum = ops.AllReduce()
        self.share = 1.0 / ranks

    def construct(self, loss: Tensor, gradients: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the loss and the gradients of the global batch."""
        return self.sum(loss) * self.share, self.gradients(gradients)


class _Sum(nn.Cell):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(auto_prefix=False)
        self.sum = ops.AllReduce()

    def construct(self, values: Tensor) -> Tensor:
        return self.sum(values)


def average_statistics(network: nn.Cell, ranks: int) -> None:
    """Set BatchNorm's running averages to their means over the ranks, so that all ranks evaluate the same model.

    During training, each rank normalises with the statistics of its own rows. Every rank must call this function.
    """
    averages = [parameter for parameter in network.get_parameters() if parameter.name.endswith(RUNNING)]
    if not averages:
        return
    flat = np.concatenate([parameter.asnumpy().ravel() for parameter in averages]).astype(np.float32)
    mean = _Sum()(Tensor(flat)).asnumpy() / ranks
    ends = np.cumsum([parameter.size for parameter in averages])
    for parameter, values in zip(averages, np.split(mean, ends[:-1]), strict=True):
        parameter.set_data(Tensor(values.reshape(parameter.shape).astype(np.float32), parameter.dtype))


def sum_scores(scores: Sums) -> Sums:
    """Return the sum of the scores of all ranks. Every rank must call this function."""
    fields = astuple(scores)
    pieces = [piece for value in fields for piece in (divmod(value, PIECE) if isinstance(value, int) else (value,))]
    sums = iter(_Sum()(Tensor(np.array(pieces, np.float32))).asnumpy().astype(np.float64).tolist())
    totals = [round(next(sums) * PIECE + next(sums)) if isinstance(value, int) else next(sums) for value in fields]
    return type(scores)(*totals)
