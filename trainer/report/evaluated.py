"""Evaluations saved by `trainer eval` in a run folder, read without MindSpore."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.errors import ContractError
from schemas.storage.regular_file import read_regular
from trainer.evaluation.details import REPORT, ClassScore, WorstRow, picture_name
from trainer.runs.folder import EVALUATIONS

MAX_REPORT_BYTES = 1 << 30
MAX_PICTURE_BYTES = 1 << 20  # trainer eval writes a few dozen KB; larger files are not its own


@dataclass(frozen=True)
class StoredEvaluation:
    """An evaluation of the checkpoint of `epoch` and `step` (None: not recorded by an older version).

    `confusion` is int64 (classes, classes), [label, predicted]. `folder` also has a picture of each of the `worst`.
    """

    folder: Path
    split: str
    dataset: str
    epoch: int | None
    step: int | None
    rows: int
    correct: int
    accuracy: float
    top5: float | None
    loss: float
    same_data: bool
    classes: tuple[ClassScore, ...]
    confusion: NDArray[np.int64]
    worst: tuple[WorstRow, ...]

    def picture(self, number: int) -> bytes | None:
        """Return the JPEG of worst row `number`, from 0; None if it is missing."""
        path = self.folder / picture_name(number)
        try:
            return read_regular(path, MAX_PICTURE_BYTES)
        except (OSError, ContractError):
            return None


def read_evaluations(run: Path) -> tuple[tuple[StoredEvaluation, ...], list[tuple[str, str]]]:
    """Return the evaluations in RUN/eval, by split, and (file, reason) of those that cannot be read."""
    evaluations: list[StoredEvaluation] = []
    unread: list[tuple[str, str]] = []
    for path in sorted((run / EVALUATIONS).glob(f"*/{REPORT}")):
        try:
            values = json.loads(read_regular(path, MAX_REPORT_BYTES).decode(errors="replace"))
            evaluations.append(_evaluation(path.parent, values))
        except (OSError, ContractError, ValueError, TypeError, KeyError, RecursionError) as error:
            why = f"it cannot be read ({type(error).__name__}: {error}); 'trainer eval' writes it again"
            unread.append((path.relative_to(run).as_posix(), why))
    return tuple(evaluations), unread


def _evaluation(folder: Path, values: dict[str, Any]) -> StoredEvaluation:
    classes = tuple(ClassScore(**{**one, "name": str(one["name"])}) for one in values["classes"])
    confusion = np.array(values["confusion"], np.int64)
    if confusion.shape != (len(classes), len(classes)) or not classes:
        raise ValueError(f"a confusion matrix of shape {confusion.shape} for {len(classes)} classes")
    return StoredEvaluation(
        folder=folder,
        split=folder.name,
        dataset=str(values["dataset"]),
        epoch=_whole(values.get("epoch")),
        step=_whole(values.get("step")),
        rows=int(values["rows"]),
        correct=int(values["correct"]),
        accuracy=float(values["accuracy"]),
        top5=None if values["top5"] is None else float(values["top5"]),
        loss=float(values["loss"]),
        same_data=bool(values["same_data"]),
        classes=classes,
        confusion=confusion,
        worst=tuple(_worst(one) for one in values["worst"]),
    )


def _worst(one: dict[str, Any]) -> WorstRow:
    names = {name: str(one[name]) for name in ("key", "label", "predicted")}
    return WorstRow(**names, score=float(one["score"]), loss=float(one["loss"]), row=_whole(one.get("row")))


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
