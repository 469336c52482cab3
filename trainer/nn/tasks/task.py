"""Task: how records of one kind are trained on and scored."""

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
    """Sums over rows. A subclass may add int and float fields; batches and ranks are summed field by field."""

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
        """The metric that selects the best weights, reported as val accuracy: 0 to 1, higher is better."""
        raise NotImplementedError


@dataclass(frozen=True)
class Task:
    """One record kind in training. Its module imports MindSpore and NumPy inside functions only.

    `outputs` returns the width of the network's output, given the dataset's classes. `loss` returns a cell that maps
    (outputs, targets) to a float32 scalar. `score` takes arrays, outputs (N, width) and targets (N,); `no_scores` is
    the sum over no rows. `columns` are the roles of the columns to read: the image, and the target, which has the type
    of its schema field. `check_dataset` and `check_labels` raise ContractError. `classifies` is True if the outputs are
    logits of the dataset's classes, which mixup, cutmix, `trainer eval` and `trainer predict` need.
    """

    outputs: Callable[[Sequence[str]], int]
    loss: Callable[[RunConfig], object]
    score: Callable[[Any, Any], Scores]
    no_scores: Scores
    columns: tuple[str, str] = ("image", "label")
    check_dataset: Callable[[Path, Dataset], None] = lambda folder, dataset: None
    check_labels: Callable[[Path, Dataset, str], None] = lambda folder, dataset, split: None
    classifies: bool = False
