"""Multilabel: rows of several classes as multi-hot arrays, trained with binary cross entropy."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.dataset import Dataset
from schemas.errors import ContractError
from trainer.config import RunConfig
from trainer.nn.tasks.task import Scores, Task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

THRESHOLD = 0.5  # probability from which a class is predicted


@dataclass(frozen=True)
class LabelScores(Scores):
    """Sums over rows; `loss` is the mean binary cross entropy over the classes, in nats.

    `right` counts the predicted classes that a row has, `predicted` all predicted classes, and `labels` all classes of
    the rows.
    """

    right: int = 0
    predicted: int = 0
    labels: int = 0

    @property
    def headline(self) -> float:
        """Micro F1 at THRESHOLD: twice `right`, divided by the sum of `predicted` and `labels`."""
        return 2 * self.right / max(1, self.predicted + self.labels)


def sigmoid(logits: "NDArray[Any]") -> "NDArray[np.float64]":
    """Return the probabilities of logits, in float64."""
    import numpy as np

    probabilities: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(logits.astype(np.float64), -500, 500)))
    return probabilities


def binary_cross_entropy(logits: "NDArray[Any]", targets: "NDArray[Any]") -> "NDArray[np.float64]":
    """Return the binary cross entropy (N,) in nats, the mean over the classes, of logits (N, classes)."""
    import numpy as np

    wide = logits.astype(np.float64)
    losses = np.maximum(wide, 0) - wide * targets + np.log1p(np.exp(-abs(wide)))
    means: NDArray[np.float64] = losses.mean(axis=1)
    return means


def score(logits: "NDArray[Any]", targets: "NDArray[Any]") -> LabelScores:
    """Return the scores of logits (N, classes) against multi-hot targets (N, classes)."""
    predicted, has = logits >= 0, targets > 0
    return LabelScores(
        len(targets),
        float(binary_cross_entropy(logits, targets).sum()),
        int((predicted & has).sum()),
        int(predicted.sum()),
        int(has.sum()),
    )


def _loss(config: RunConfig, _class_weights: Sequence[float] | None) -> object:
    from trainer.nn.cross_entropy import BinaryCrossEntropy

    return BinaryCrossEntropy(config.label_smoothing)


def _check_dataset(folder: Path, dataset: Dataset) -> None:
    if not dataset.schema.has_role("multi_hot"):
        raise ContractError(
            f"{folder} has lists of labels, which cannot be batched; shard with --schema multilabel, whose column has "
            "the role multi_hot"
        )
    if not dataset.classes:
        raise ContractError(f"{folder} has no class")


TASK = Task(
    outputs=len,
    loss=_loss,
    score=score,
    no_scores=LabelScores(),
    columns=("image", "multi_hot"),
    check_dataset=_check_dataset,
    probabilities=sigmoid,
    several=True,
    metric="micro F1 at a probability of 0.5",
)
