"""An evaluation as shown on the page: confusion matrix, most confused classes, worst images."""

from dataclasses import dataclass

import numpy as np

from trainer.evaluation.details import Evaluation
from trainer.report.compare import outcome
from trainer.report.evaluated import read_picture
from trainer.report.figures import matrix_png, row_shares
from trainer.report.history import Run, number
from trainer.report.render import data_uri

TABLE_CLASSES = 24  # with more classes the matrix is shown as a picture, not as a table
PAIRS = 100  # most pairs of confused classes on the page


@dataclass(frozen=True)
class Pair:
    """Confused classes: `rows` rows of class `label`, a `share` of all its rows, were predicted as `predicted`."""

    label: str
    predicted: str
    rows: int
    share: float


@dataclass(frozen=True)
class WorstImage:
    """One of the worst images. `picture` is a data URI, or None if there is no picture."""

    key: str
    label: str
    predicted: str
    score: float
    loss: float
    picture: str | None


@dataclass(frozen=True)
class EvaluationView:
    """An evaluation as shown on the page. `remarks` warn about other data, or about weights that are not the best.

    `matrix` has (count, share) cells of a small matrix, one row per label. `picture` is a large matrix as a data URI.
    """

    number: int
    run: str
    evaluation: Evaluation
    remarks: tuple[str, ...]
    matrix: tuple[tuple[tuple[int, float], ...], ...] | None
    picture: str | None
    pairs: tuple[Pair, ...]
    worst: tuple[WorstImage, ...]
    without_picture: int


def view_evaluation(number: int, run: Run, evaluation: Evaluation, picture_bytes: int) -> EvaluationView:
    """Return the view of an evaluation of run `number`, with at most `picture_bytes` of pictures."""
    small = len(evaluation.classes) <= TABLE_CLASSES
    worst = _worst(run, evaluation, picture_bytes)
    return EvaluationView(
        number=number,
        run=run.name,
        evaluation=evaluation,
        remarks=tuple(_remarks(run, evaluation)),
        matrix=_matrix(evaluation) if small else None,
        picture=None if small else data_uri("png", matrix_png(evaluation.confusion)),
        pairs=most_confused(evaluation),
        worst=worst,
        without_picture=sum(one.picture is None for one in worst),
    )


def most_confused(evaluation: Evaluation, most: int = PAIRS) -> tuple[Pair, ...]:
    """Return the pairs of label and wrong prediction with the most rows."""
    misses = evaluation.confusion.copy()
    np.fill_diagonal(misses, 0)
    flat = misses.ravel()
    order = np.argsort(-flat, kind="stable")[:most]
    rows = evaluation.confusion.sum(axis=1)
    pairs = [(*divmod(int(cell), len(misses)), int(flat[cell])) for cell in order if flat[cell] > 0]
    names = [one.name for one in evaluation.classes]
    return tuple(Pair(names[label], names[guess], count, count / int(rows[label])) for label, guess, count in pairs)


def _matrix(evaluation: Evaluation) -> tuple[tuple[tuple[int, float], ...], ...]:
    shares = row_shares(evaluation.confusion)
    return tuple(
        tuple((int(count), float(share)) for count, share in zip(*row, strict=True))
        for row in zip(evaluation.confusion, shares, strict=True)
    )


def _worst(run: Run, evaluation: Evaluation, picture_bytes: int) -> tuple[WorstImage, ...]:
    rows = []
    for index, one in enumerate(evaluation.worst):
        content = read_picture(run.folder, evaluation.split, index)
        if content is not None and len(content) > picture_bytes:
            content, picture_bytes = None, 0  # no pictures after the first picture that does not fit
        picture_bytes -= len(content or b"")
        picture = None if content is None else data_uri("jpeg", content)
        rows.append(WorstImage(one.key, one.label, one.predicted, one.score, one.loss, picture))
    return tuple(rows)


def _remarks(run: Run, evaluation: Evaluation) -> list[str]:
    remarks = []
    if not evaluation.same_data:
        remarks.append(f"Evaluated on {evaluation.dataset}, not on the training dataset.")
    best = number((run.result or {}).get("best_epoch")) or outcome(run).best_epoch
    if best is not None and evaluation.epoch is not None and best != evaluation.epoch:
        weights = f"The evaluated weights are from epoch {evaluation.epoch}"
        remarks.append(f"{weights}; the best weights are now from epoch {best:g}.")
    return remarks
