"""Evaluations saved by `trainer eval` in a run folder, read without MindSpore."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from schemas.errors import ContractError
from schemas.storage.regular_file import read_regular
from trainer.evaluation.details import ClassScore, Evaluation, WorstRow, picture_name
from trainer.runs.folder import EVALUATION, EVALUATIONS

MAX_REPORT_BYTES = 1 << 30
MAX_PICTURE_BYTES = 1 << 20  # trainer eval writes a few dozen KB; a larger file is not a thumbnail of trainer eval


def read_evaluations(run: Path) -> tuple[tuple[Evaluation, ...], list[tuple[str, str]]]:
    """Return the evaluations in RUN/eval by split, and (file, reason) for each unreadable file."""
    evaluations: list[Evaluation] = []
    unreadable: list[tuple[str, str]] = []
    for path in sorted((run / EVALUATIONS).glob(f"*/{EVALUATION}")):
        try:
            values = json.loads(read_regular(path, MAX_REPORT_BYTES).decode(errors="replace"))
            evaluations.append(_evaluation(path.parent.name, values))
        except (OSError, ContractError, ValueError, TypeError, KeyError, RecursionError) as error:
            reason = f"cannot be read ({type(error).__name__}: {error}); run 'trainer eval' again to replace it"
            unreadable.append((path.relative_to(run).as_posix(), reason))
    return tuple(evaluations), unreadable


def read_picture(run: Path, split: str, number: int) -> bytes | None:
    """Return the JPEG of worst row `number` in RUN/eval/<split>, or None if there is no picture."""
    try:
        return read_regular(run / EVALUATIONS / split / picture_name(number), MAX_PICTURE_BYTES)
    except (OSError, ContractError):
        return None


def _evaluation(split: str, values: dict[str, Any]) -> Evaluation:
    classes = tuple(ClassScore(**{**row, "name": str(row["name"])}) for row in values["classes"])
    confusion = np.array(values["confusion"], np.int64)
    if confusion.shape != (len(classes), len(classes)) or not classes:
        raise ValueError(f"a confusion matrix of shape {confusion.shape} for {len(classes)} classes")
    return Evaluation(
        checkpoint=str(values.get("checkpoint", "")),
        split=split,
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
        worst=tuple(_worst(row) for row in values["worst"]),
    )


def _worst(row: dict[str, Any]) -> WorstRow:
    names = {name: str(row[name]) for name in ("key", "label", "predicted")}
    return WorstRow(**names, score=float(row["score"]), loss=float(row["loss"]), row=_whole(row.get("row")))


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
