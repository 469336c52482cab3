"""Task: the loss, the scores and the dataset checks of one record kind."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, TypeVar

from schemas.dataset import Dataset
from trainer.config import RunConfig

Sums = TypeVar("Sums", bound="Scores")


@dataclass(frozen=True)
class Scores:
    """Sums over rows. A subclass may add int and float fields. Scores of batches and ranks are added field by field."""

    rows: int = 0
    loss_sum: float = 0.0

    def __add__(self: Sums, other: Sums) -> Sums:
        return type(self)(*map(operator.add, astuple(self), astuple(other)))

    @property
    def loss(self) -> float:
        """Mean loss per row."""
        return self.loss_sum / self.rows

    @property
    def headline(self) -> float:
        """Metric that selects the best weights and is reported as val accuracy, from 0 to 1; higher is better."""
        raise NotImplementedError


@dataclass(frozen=True)
class Task:
    """Training and scoring of one record kind. A task's module imports MindSpore and NumPy inside functions only.

    `outputs` takes the dataset's classes and returns the width of the network's output. `loss` takes the
    configuration and the weight of each class, or None, and returns a cell that maps (outputs, targets) to a float32
    scalar. `score` takes arrays: outputs (N, width) and targets (N,). `no_scores` has
    the scores of zero rows. `columns` are the roles of the image column and the target column; targets have the type
    of the schema field. `check_dataset` and `check_labels` raise ContractError if the dataset cannot be used.
    `classifies` is True if the outputs are logits of the dataset's classes, one class per row, as mixup and cutmix
    require. `probabilities` maps outputs to probabilities (N, classes); None means that `trainer eval` and `trainer
    predict` do not support the kind. `several` is True if a row may have several classes. `metric` describes the
    headline of the scores.
    """

    outputs: Callable[[Sequence[str]], int]
    loss: Callable[[RunConfig, Sequence[float] | None], object]
    score: Callable[[Any, Any], Scores]
    no_scores: Scores
    columns: tuple[str, str] = ("image", "label")
    check_dataset: Callable[[Path, Dataset], None] = lambda folder, dataset: None
    check_labels: Callable[[Path, Dataset, str], None] = lambda folder, dataset, split: None
    classifies: bool = False
    probabilities: Callable[[Any], Any] | None = None
    several: bool = False
    metric: str = "accuracy"
