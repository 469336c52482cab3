"""Result of an evaluation of rows with several classes: average precision, precision, recall and F1 per class."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.storage.files import write_whole
from trainer.errors import disk_error
from trainer.runs.folder import CLASSES, EVALUATION

_SMALL = 1e-12  # probabilities closer to 0 or 1 have this one in the loss


@dataclass(frozen=True)
class LabelScore:
    """Scores of a class. `rows` have it, `predicted` rows have a probability of at least the threshold.

    `average_precision` is None if no row has the class.
    """

    name: str
    rows: int
    predicted: int
    precision: float
    recall: float
    f1: float
    average_precision: float | None


@dataclass(frozen=True)
class LabelEvaluation:
    """Result of `trainer eval` on rows of several classes.

    `mean_average_precision` is the mean over the classes that some row has. `macro_f1` is the mean of the classes' F1,
    `micro_f1` the F1 of all predictions together. `loss` is the mean binary cross entropy in nats. `same_data` is True
    if the checkpoint was trained on this dataset.
    """

    checkpoint: str
    dataset: str
    split: str
    rows: int
    threshold: float
    loss: float
    mean_average_precision: float
    macro_f1: float
    micro_f1: float
    same_data: bool
    classes: list[LabelScore]

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as a JSON object."""
        return asdict(self)


class LabelTable:
    """Probabilities and multi-hot targets of all rows."""

    def __init__(self, classes: Sequence[str]) -> None:
        self._classes = classes
        self._probabilities: list[NDArray[np.float32]] = []
        self._targets: list[NDArray[np.bool_]] = []

    def add(self, probabilities: NDArray[Any], targets: NDArray[Any]) -> None:
        """Add a batch: two arrays (N, classes)."""
        self._probabilities.append(probabilities.astype(np.float32))
        self._targets.append(targets > 0)

    def evaluation(
        self, checkpoint: str, dataset: str, split: str, threshold: float, same_data: bool
    ) -> LabelEvaluation:
        """Return the scores of all rows."""
        scores, has = np.concatenate(self._probabilities), np.concatenate(self._targets)
        predicted = scores >= threshold
        right = predicted & has
        classes = [
            LabelScore(
                name,
                int(has[:, number].sum()),
                int(predicted[:, number].sum()),
                _ratio(right[:, number].sum(), predicted[:, number].sum()),
                _ratio(right[:, number].sum(), has[:, number].sum()),
                _ratio(2 * right[:, number].sum(), has[:, number].sum() + predicted[:, number].sum()),
                average_precision(scores[:, number], has[:, number]),
            )
            for number, name in enumerate(self._classes)
        ]
        precisions = [one.average_precision for one in classes if one.average_precision is not None]
        likely = np.clip(np.where(has, scores, 1 - scores).astype(np.float64), _SMALL, 1)
        return LabelEvaluation(
            checkpoint,
            dataset,
            split,
            len(has),
            threshold,
            float(-np.log(likely).mean()),
            float(np.mean(precisions)) if precisions else 0.0,
            float(np.mean([one.f1 for one in classes])),
            _ratio(2 * right.sum(), has.sum() + predicted.sum()),
            same_data,
            classes,
        )


def _ratio(part: Any, whole: Any) -> float:
    return float(part) / float(whole) if whole else 0.0


def average_precision(scores: NDArray[Any], has: NDArray[np.bool_]) -> float | None:
    """Return the average precision of scores (N,) for the rows that `has` (N,) marks; None if there is none.

    It is the mean, over these rows, of the precision among all rows with at least the same score.
    """
    total = int(has.sum())
    if not total:
        return None
    order = np.argsort(-scores, kind="stable")
    ranked, marked = scores[order], has[order]
    found = np.cumsum(marked)
    last_of_score = np.append(ranked[1:] != ranked[:-1], True)  # rows of equal scores count together
    ends = np.flatnonzero(last_of_score)
    precision = found[ends] / (ends + 1)
    steps = np.diff(np.concatenate([[0], found[ends]]))
    return float((precision * steps).sum() / total)


def write_label_report(folder: Path, evaluation: LabelEvaluation) -> None:
    """Write the evaluation as JSON and its classes as CSV. Raises TrainerError if the folder cannot be written."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(field.name for field in fields(LabelScore))
    writer.writerows(astuple(one) for one in evaluation.classes)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / EVALUATION, json.dumps(evaluation.to_dict(), indent=1))
        write_whole(folder / CLASSES, table.getvalue())
    except OSError as error:
        raise disk_error(error, f"cannot write the evaluation into {folder}") from None
