"""What is minimised and what is counted, for classification."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from mindspore import Tensor, nn, ops
from mindspore import dtype as mstype
from numpy.typing import NDArray


class SmoothedCrossEntropy(nn.Cell):  # type: ignore[misc]
    """Mean cross entropy of logits (N, classes) of any float type, in float32, against int32 labels (N,)."""

    def __init__(self, label_smoothing: float) -> None:
        super().__init__()
        self.loss = nn.CrossEntropyLoss(label_smoothing=label_smoothing)

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss, a float32 scalar."""
        return self.loss(ops.cast(logits, mstype.float32), labels)


@dataclass(frozen=True)
class Scores:
    """Sums over rows, so that parts of any size add up exactly. `loss` is without label smoothing."""

    rows: int = 0
    correct: int = 0
    loss_sum: float = 0.0

    def __add__(self, other: "Scores") -> "Scores":
        return Scores(self.rows + other.rows, self.correct + other.correct, self.loss_sum + other.loss_sum)

    @property
    def accuracy(self) -> float:
        """Share of rows whose highest logit is their label."""
        return self.correct / self.rows

    @property
    def loss(self) -> float:
        """Mean cross entropy a row, in nats."""
        return self.loss_sum / self.rows


def score(logits: NDArray[Any], labels: NDArray[np.int32]) -> Scores:
    """Score logits (N, classes) against labels (N,)."""
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(wide).sum(axis=1))
    losses = log_sum - wide[np.arange(len(labels)), labels]
    return Scores(len(labels), int((wide.argmax(axis=1) == labels).sum()), float(losses.sum()))
