"""What an evaluation shows beyond one number: hits a class, the confusion matrix, top-5, the worst images by key."""

import csv
import heapq
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.storage.files import write_whole
from trainer.errors import disk_error

TOP = 5
REPORT, CLASSES, CONFUSION, WORST = "report.json", "classes.csv", "confusion.csv", "worst.csv"
PICTURES = "worst"  # a folder of small pictures of the worst rows


@dataclass(frozen=True)
class ClassScore:
    """One class: its rows, how many were hit, and the class that most of the others were taken for."""

    name: str
    rows: int
    correct: int
    accuracy: float | None
    taken_for: str | None
    taken: int


@dataclass(frozen=True)
class WorstRow:
    """A row that the network likes least: `loss` is the cross entropy in nats, `score` what its label was given.

    `row` is its place in the split in stored order, from 0; None in reports of before it was kept.
    """

    key: str
    label: str
    predicted: str
    score: float
    loss: float
    row: int | None = None


class Details:
    """Counts batch by batch; memory does not grow with the rows. `keep` is how many of the worst rows are kept."""

    def __init__(self, classes: Sequence[str], keep: int) -> None:
        self.classes = tuple(classes)
        self.keep = keep
        self.confusion = np.zeros((len(classes), len(classes)), np.int64)  # [label, predicted]
        self.in_top = 0
        self.loss_sum = 0.0
        self._worst: list[tuple[float, int, WorstRow]] = []
        self._seen = 0

    def add(self, logits: NDArray[Any], labels: NDArray[np.int32], keys: Iterable[str]) -> None:
        """Count a batch: logits (N, classes), labels (N,), and a key a row."""
        wide = logits.astype(np.float64)
        rows = np.arange(len(labels))
        log_scores = log_softmax(wide)
        predicted = wide.argmax(axis=1)
        own = wide[rows, labels]
        # Of equal logits the lower class counts as higher, as in argmax; a row that is not finite is in no top.
        lower = np.arange(wide.shape[1])[None, :] < labels[:, None]
        above = (wide > own[:, None]) | ((wide == own[:, None]) & lower)
        self.in_top += int(((above.sum(axis=1) < TOP) & np.isfinite(wide).all(axis=1)).sum())
        np.add.at(self.confusion, (labels, predicted), 1)
        losses = -log_scores[rows, labels]
        self.loss_sum += float(losses.sum())
        for key, label, guess, loss in zip(keys, labels, predicted, losses, strict=True):
            self._note(key, int(label), int(guess), float(loss))

    def _note(self, key: str, label: int, guess: int, loss: float) -> None:
        place = self._seen
        self._seen += 1
        rank = loss if np.isfinite(loss) else np.inf
        if self.keep and (len(self._worst) < self.keep or rank > self._worst[0][0]):
            row = WorstRow(key, self.classes[label], self.classes[guess], float(np.exp(-loss)), loss, place)
            push = heapq.heappush if len(self._worst) < self.keep else heapq.heapreplace
            push(self._worst, (rank, -self._seen, row))  # of equals the earlier row is kept

    @property
    def rows(self) -> int:
        """Rows counted."""
        return self._seen

    @property
    def correct(self) -> int:
        """Rows whose highest logit is their label."""
        return int(self.confusion.trace())

    @property
    def worst(self) -> tuple[WorstRow, ...]:
        """The rows of the highest loss, the worst first."""
        return tuple(row for _, _, row in sorted(self._worst, key=lambda entry: (-entry[0], -entry[1])))

    @property
    def by_class(self) -> tuple[ClassScore, ...]:
        """A score for each class, in the classes' order."""
        return tuple(self._class(number) for number in range(len(self.classes)))

    def _class(self, number: int) -> ClassScore:
        counts = self.confusion[number]
        rows, correct = int(counts.sum()), int(counts[number])
        misses = counts.copy()
        misses[number] = 0
        other = int(misses.argmax())
        return ClassScore(
            name=self.classes[number],
            rows=rows,
            correct=correct,
            accuracy=correct / rows if rows else None,
            taken_for=self.classes[other] if misses[other] else None,
            taken=int(misses[other]),
        )


def log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithms of the scores, a row (N, classes) summing to one as scores."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    scores: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return scores


def write_report(folder: Path, found: Any) -> None:
    """Write an Evaluation as report.json, classes.csv, confusion.csv and worst.csv; earlier ones are replaced.

    The confusion matrix has a row for each label and a column for each prediction. Raises TrainerError.
    """
    names = [one.name for one in found.classes]
    # Not asdict, which copies each number: seconds for the matrix of a thousand classes.
    lists = {"classes": [vars(one) for one in found.classes], "worst": [vars(one) for one in found.worst]}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / REPORT, json.dumps(vars(found) | lists, indent=1) + "\n")
        _table(folder / CLASSES, list(ClassScore.__dataclass_fields__), (asdict(one).values() for one in found.classes))
        counts = ([name, *row] for name, row in zip(names, found.confusion, strict=True))
        _table(folder / CONFUSION, ["label \\ predicted", *names], counts)
        _table(folder / WORST, list(WorstRow.__dataclass_fields__), (asdict(one).values() for one in found.worst))
    except OSError as error:
        raise disk_error(error, f"cannot write the report into {folder}") from None


def picture_name(place: int) -> str:
    """File in a report's folder with the picture of the worst row at `place`, from 0; a key would be no safe name."""
    return f"{PICTURES}/{place + 1:04d}.jpg"


def _table(path: Path, head: list[str], rows: Iterable[Iterable[object]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(head)
    writer.writerows(rows)
    write_whole(path, text.getvalue())
