"""The evaluations that `trainer eval` has left in a run folder, read back without MindSpore."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.errors import ContractError
from schemas.storage.regular_file import read_regular
from trainer.evaluation.details import ClassScore, WorstRow, picture_name
from trainer.runs.folder import EVALUATION, EVALUATIONS

MAX_REPORT_BYTES = 1 << 30
MAX_PICTURE_BYTES = 1 << 20  # what trainer eval writes is a few dozen KB; anything larger is not from there


@dataclass(frozen=True)
class Evaluated:
    """One evaluation: of the checkpoint of `epoch` and `step` (None: it was made by a version that did not say).

    `confusion` is int64 (classes, classes), [label, predicted]. `folder` also holds a picture of each of the `worst`.
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

    def picture(self, place: int) -> bytes | None:
        """The JPEG of the worst row at `place`, None when it is not there."""
        path = self.folder / picture_name(place)
        try:
            return read_regular(path, MAX_PICTURE_BYTES)
        except (OSError, ContractError):
            return None


def read_evaluations(run: Path) -> tuple[tuple[Evaluated, ...], list[tuple[str, str]]]:
    """Those in RUN/eval, by split; and of each that cannot be read its file and why."""
    found: list[Evaluated] = []
    unread: list[tuple[str, str]] = []
    for path in sorted((run / EVALUATIONS).glob(f"*/{EVALUATION}")):
        try:
            said = json.loads(read_regular(path, MAX_REPORT_BYTES).decode(errors="replace"))
            found.append(_evaluated(path.parent, said))
        except (OSError, ContractError, ValueError, TypeError, KeyError, RecursionError) as error:
            why = f"it cannot be read ({type(error).__name__}: {error}); 'trainer eval' writes it anew"
            unread.append((path.relative_to(run).as_posix(), why))
    return tuple(found), unread


def _evaluated(folder: Path, said: dict[str, Any]) -> Evaluated:
    classes = tuple(ClassScore(**{**one, "name": str(one["name"])}) for one in said["classes"])
    confusion = np.array(said["confusion"], np.int64)
    if confusion.shape != (len(classes), len(classes)) or not classes:
        raise ValueError(f"a confusion matrix of shape {confusion.shape} for {len(classes)} classes")
    return Evaluated(
        folder=folder,
        split=folder.name,
        dataset=str(said["dataset"]),
        epoch=_whole(said.get("epoch")),
        step=_whole(said.get("step")),
        rows=int(said["rows"]),
        correct=int(said["correct"]),
        accuracy=float(said["accuracy"]),
        top5=None if said["top5"] is None else float(said["top5"]),
        loss=float(said["loss"]),
        same_data=bool(said["same_data"]),
        classes=classes,
        confusion=confusion,
        worst=tuple(_worst(one) for one in said["worst"]),
    )


def _worst(one: dict[str, Any]) -> WorstRow:
    names = {name: str(one[name]) for name in ("key", "label", "predicted")}
    return WorstRow(**names, score=float(one["score"]), loss=float(one["loss"]), row=_whole(one.get("row")))


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
