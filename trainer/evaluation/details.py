"""Result of an evaluation: accuracy per class, confusion matrix, top-5 accuracy, and the worst images."""

import csv
import heapq
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.storage.files import write_whole
from trainer.errors import disk_error
from trainer.nn.tasks.classification import cross_entropy
from trainer.runs.folder import CLASSES, CONFUSION, EVALUATION, PICTURES, WORST

TOP = 5


@dataclass(frozen=True)
class ClassScore:
    """Score of a class. `accuracy` is its recall.

    `taken_for` is the class most often predicted instead, in `taken` rows. `precision` is the share of correct rows
    among those predicted as this class, None if there are none.
    """

    name: str
    rows: int
    correct: int
    accuracy: float | None
    taken_for: str | None
    taken: int
    precision: float | None = None
    f1: float | None = None


@dataclass(frozen=True)
class WorstRow:
    """A row with one of the highest losses. `loss` is the cross entropy in nats, `score` the label's probability.

    `row` is the index of the row in the split, in stored order from 0, or None in reports of earlier versions.
    """

    key: str
    label: str
    predicted: str
    score: float
    loss: float
    row: int | None = None


@dataclass(frozen=True)
class Evaluation:
    """Result of `trainer eval`. `epoch` and `step` are from the checkpoint, or None in old reports.

    `same_data` is True if the checkpoint was trained on this dataset. `top5` is the share of rows whose label is among
    the five highest logits, or None with five classes or fewer. `confusion` (classes, classes) counts rows by
    [label, predicted]. `worst` has the rows with the highest loss, the highest loss first.
    """

    checkpoint: str
    epoch: int | None
    step: int | None
    dataset: str
    split: str
    rows: int
    correct: int
    accuracy: float
    top5: float | None
    loss: float
    same_data: bool
    classes: tuple[ClassScore, ...]
    confusion: NDArray[np.int64]
    worst: tuple[WorstRow, ...]

    def to_dict(self) -> dict[str, object]:
        """Return all fields as values for JSON."""
        lists = {"classes": [vars(each) for each in self.classes], "worst": [vars(each) for each in self.worst]}
        return vars(self) | lists | {"confusion": self.confusion.tolist()}


class Details:
    """Running counts of an evaluation, in constant memory. `keep` is the number of worst rows to keep."""

    def __init__(self, classes: Sequence[str], keep: int) -> None:
        self.classes = tuple(classes)
        self.keep = keep
        self.confusion = np.zeros((len(classes), len(classes)), np.int64)  # [label, predicted]
        self.in_top = 0
        self.loss_sum = 0.0
        self._worst: list[tuple[float, int, WorstRow]] = []
        self.rows = 0

    def add(self, logits: NDArray[Any], labels: NDArray[np.int32], keys: Iterable[str]) -> None:
        """Count a batch: logits (N, classes), labels (N,), and one key per row."""
        wide = logits.astype(np.float64)
        own = wide[np.arange(len(labels)), labels]
        predicted = wide.argmax(axis=1)
        # Among equal logits the lower class ranks higher, as in argmax. Rows with non-finite logits are not counted.
        lower = np.arange(wide.shape[1])[None, :] < labels[:, None]
        above = (wide > own[:, None]) | ((wide == own[:, None]) & lower)
        self.in_top += int(((above.sum(axis=1) < TOP) & np.isfinite(wide).all(axis=1)).sum())
        np.add.at(self.confusion, (labels, predicted), 1)
        losses = cross_entropy(logits, labels)
        self.loss_sum += float(losses.sum())
        for key, label, guess, loss in zip(keys, labels, predicted, losses, strict=True):
            self._add_row(key, int(label), int(guess), float(loss))

    def _add_row(self, key: str, label: int, guess: int, loss: float) -> None:
        rank = loss if np.isfinite(loss) else np.inf
        if self.keep and (len(self._worst) < self.keep or rank > self._worst[0][0]):
            row = WorstRow(key, self.classes[label], self.classes[guess], float(np.exp(-loss)), loss, self.rows)
            push = heapq.heappush if len(self._worst) < self.keep else heapq.heapreplace
            push(self._worst, (rank, -self.rows, row))  # among equal losses the earlier row is kept
        self.rows += 1

    @property
    def correct(self) -> int:
        """Number of rows whose highest logit is their label."""
        return int(self.confusion.trace())

    @property
    def worst(self) -> tuple[WorstRow, ...]:
        """The rows with the highest loss, the highest loss first."""
        return tuple(row for _, _, row in sorted(self._worst, key=lambda entry: (-entry[0], -entry[1])))

    @property
    def by_class(self) -> tuple[ClassScore, ...]:
        """One score per class, in the order of the classes."""
        return tuple(self._class(number) for number in range(len(self.classes)))

    def _class(self, number: int) -> ClassScore:
        counts = self.confusion[number]
        rows, correct = int(counts.sum()), int(counts[number])
        misses = counts.copy()
        misses[number] = 0
        other = int(misses.argmax())
        predicted = int(self.confusion[:, number].sum())
        return ClassScore(
            name=self.classes[number],
            rows=rows,
            correct=correct,
            accuracy=correct / rows if rows else None,
            taken_for=self.classes[other] if misses[other] else None,
            taken=int(misses[other]),
            precision=correct / predicted if predicted else None,
            f1=2 * correct / (rows + predicted) if rows + predicted else None,
        )


def write_report(folder: Path, evaluation: Evaluation) -> None:
    """Write report.json, classes.csv, confusion.csv and worst.csv into `folder`, replacing earlier files.

    The confusion matrix has one row per label and one column per prediction. Raises TrainerError if writing fails.
    """
    names, values = [each.name for each in evaluation.classes], evaluation.to_dict()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / EVALUATION, json.dumps(values, indent=1) + "\n")
        _table(folder / CLASSES, [field.name for field in fields(ClassScore)], map(astuple, evaluation.classes))
        counts = ([name, *row] for name, row in zip(names, evaluation.confusion.tolist(), strict=True))
        _table(folder / CONFUSION, ["label \\ predicted", *names], counts)
        _table(folder / WORST, [field.name for field in fields(WorstRow)], map(astuple, evaluation.worst))
    except OSError as error:
        raise disk_error(error, f"cannot write the report into {folder}") from None


def picture_name(number: int) -> str:
    """Return the path in a report folder of the thumbnail of worst row `number`, from 0."""
    return f"{PICTURES}/{number + 1:04d}.jpg"


def _table(path: Path, header: list[str], rows: Iterable[Iterable[object]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows(rows)
    write_whole(path, text.getvalue())
