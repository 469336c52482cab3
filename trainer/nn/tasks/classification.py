"""Classification: cross-entropy loss and accuracy."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.counting import many
from schemas.dataset import Dataset
from schemas.errors import ContractError
from trainer.config import RunConfig
from trainer.feed.integrity import check_labels
from trainer.nn.tasks.task import Scores, Task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class ClassScores(Scores):
    """Sums over classified rows; `loss` is the cross entropy in nats, without label smoothing."""

    correct: int = 0

    @property
    def headline(self) -> float:
        """Accuracy: the fraction of rows whose label has the highest logit."""
        return self.correct / self.rows


def log_softmax(logits: "NDArray[Any]") -> "NDArray[np.float64]":
    """Return the log probabilities of logits (N, classes), in float64."""
    import numpy as np

    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    log_probabilities: NDArray[np.float64] = wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))
    return log_probabilities


def softmax(logits: "NDArray[Any]") -> "NDArray[np.float64]":
    """Return the probabilities of logits (N, classes), in float64."""
    import numpy as np

    probabilities: NDArray[np.float64] = np.exp(log_softmax(logits))
    return probabilities


def cross_entropy(logits: "NDArray[Any]", labels: "NDArray[np.int32]") -> "NDArray[np.float64]":
    """Return the cross entropy (N,) in nats of logits (N, classes) against labels (N,)."""
    import numpy as np

    losses: NDArray[np.float64] = -log_softmax(logits)[np.arange(len(labels)), labels]
    return losses


def score(logits: "NDArray[Any]", labels: "NDArray[np.int32]") -> ClassScores:
    """Return the scores of logits (N, classes) against labels (N,)."""
    correct = int((logits.argmax(axis=1) == labels).sum())
    return ClassScores(len(labels), float(cross_entropy(logits, labels).sum()), correct)


def _loss(config: RunConfig, class_weights: Sequence[float] | None) -> object:
    from trainer.nn.cross_entropy import SmoothedCrossEntropy

    return SmoothedCrossEntropy(config.label_smoothing, class_weights)


def _check_dataset(folder: Path, dataset: Dataset) -> None:
    if len(dataset.classes) < 2:
        raise ContractError(f"{folder} has {many(len(dataset.classes), 'class', 'classes')}; a classifier needs two")


TASK = Task(
    outputs=len,
    loss=_loss,
    score=score,
    no_scores=ClassScores(),
    check_dataset=_check_dataset,
    check_labels=check_labels,
    classifies=True,
    probabilities=softmax,
)
