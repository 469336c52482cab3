"""Collective operations across ranks: loss and gradients per step, BatchNorm statistics and scores per epoch."""

from collections.abc import Sequence
from dataclasses import astuple

import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore import dtype as mstype

from trainer.nn.tasks.task import Sums

RUNNING = ("moving_mean", "moving_variance")  # BatchNorm's running averages, computed by each rank from its own images
BLOCK = 4096  # bytes
PIECE = 1 << 20  # integers are split, because float32 sums (the only type on CPU) are exact up to 2**24


class OverRanks(nn.Cell):  # type: ignore[misc]
    """Cell that averages loss and gradients over the ranks, so that all ranks make the same update.

    The loss of each rank is a mean over N rows. With R ranks, the averaged gradients are the gradients of the mean over
    N x R rows. Votes to stop are summed with the loss, so that all ranks stop after the same step.
    """

    def __init__(self, parameters: Sequence[Parameter], ranks: int) -> None:
        super().__init__(auto_prefix=False)
        self.gradients = nn.DistributedGradReducer(parameters, mean=True, degree=ranks)
        self.sum = ops.AllReduce()
        self.share = 1.0 / ranks

    def construct(
        self, loss: Tensor, gradients: tuple[Tensor, ...], vote: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...], Tensor]:
        """Return the loss and the gradients of the global batch, and the number of votes."""
        # vote + 0: in pynative mode a parameter cannot be stacked with a tensor (measured on 2.10).
        sums = self.sum(ops.stack((ops.cast(loss, mstype.float32), vote + 0.0)))
        return sums[0] * self.share, self.gradients(gradients), sums[1]


class _Sum(nn.Cell):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(auto_prefix=False)
        self.sum = ops.AllReduce()

    def construct(self, values: Tensor) -> Tensor:
        return self.sum(values)


def average_statistics(step: nn.Cell, ranks: int) -> None:
    """Set BatchNorm's running averages to their means over the ranks, so that all ranks evaluate the same model.

    During training, each rank normalises with the statistics of its own rows. `step` is the training step. Its averages
    over the steps follow the running averages too. Every rank must call this function.
    """
    averages = [parameter for parameter in step.get_parameters() if parameter.name.endswith(RUNNING)]
    if not averages:
        return
    flat = np.concatenate([parameter.asnumpy().ravel() for parameter in averages]).astype(np.float32)
    mean = _Sum()(Tensor(flat)).asnumpy() / ranks
    ends = np.cumsum([parameter.size for parameter in averages])
    for parameter, values in zip(averages, np.split(mean, ends[:-1]), strict=True):
        ops.assign(parameter, Tensor(values.reshape(parameter.shape).astype(np.float32), parameter.dtype))


def sum_scores(scores: Sums, vote: bool = False) -> tuple[Sums, int]:
    """Return the sum of the scores of all ranks, and the number of votes to stop.

    Every rank must call this function.
    """
    fields = (*astuple(scores), int(vote))
    pieces = [piece for value in fields for piece in (divmod(value, PIECE) if isinstance(value, int) else (value,))]
    sums = iter(_Sum()(Tensor(np.array(pieces, np.float32))).asnumpy().astype(np.float64).tolist())
    totals = [round(next(sums) * PIECE + next(sums)) if isinstance(value, int) else next(sums) for value in fields]
    return type(scores)(*totals[:-1]), int(totals[-1])


class _Gather(nn.Cell):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(auto_prefix=False)
        self.gather = ops.AllGather()

    def construct(self, values: Tensor) -> Tensor:
        return self.gather(values)


class Gather:
    """Exchanges bytes between the ranks. Make one and keep it: each new size is compiled."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.cell = _Gather()  # bytes travel as int32: on CPU it copies no 8-bit integers (measured on 2.10)

    def __call__(self, own: bytes) -> list[bytes]:
        """Return what each rank has passed. Every rank must call this."""
        if self.ranks == 1:
            return [own]
        sizes = self.cell(Tensor(np.array([len(own)], np.int32))).asnumpy().tolist()
        if not any(sizes):
            return [b""] * self.ranks
        words = -(-max(sizes) // BLOCK) * BLOCK // 4
        padded = np.frombuffer(own.ljust(4 * words, b"\0"), np.int32)
        rows = self.cell(Tensor(padded)).asnumpy().reshape(self.ranks, words)
        return [row.tobytes()[:size] for row, size in zip(rows, sizes, strict=True)]
