"""An evaluation as a page shows it: matrix, the pairs of classes most confused, and the worst rows with pictures."""

from dataclasses import dataclass

import numpy as np

from trainer.evaluation.details import Evaluation
from trainer.report.compare import outcome
from trainer.report.evaluated import read_picture
from trainer.report.figures import matrix_png, row_shares
from trainer.report.history import Run, number
from trainer.report.page import data_uri

TABLE_CLASSES = 24  # up to so many classes the matrix is a table of counts, above it a picture
PAIRS = 100  # of classes, the most confused first


@dataclass(frozen=True)
class Pair:
    """So many rows of `label` were taken for `predicted`; `share` is that of the label's rows."""

    label: str
    predicted: str
    rows: int
    share: float


@dataclass(frozen=True)
class Worst:
    """One of the worst rows; `picture` is an address with the picture in it, None where there is none."""

    key: str
    label: str
    predicted: str
    score: float
    loss: float
    picture: str | None


@dataclass(frozen=True)
class Shown:
    """One evaluation on the page. `matrix` has the shares of a small matrix, a row a label; `picture` is a large one's.

    `remarks` say what a reader must know: that it is of other data, or of weights that are not the best any more.
    """

    number: int
    run: str
    found: Evaluation
    remarks: tuple[str, ...]
    matrix: tuple[tuple[tuple[int, float], ...], ...] | None
    picture: str | None
    pairs: tuple[Pair, ...]
    worst: tuple[Worst, ...]
    unpictured: int


def shown(place: int, run: Run, found: Evaluation, picture_bytes: int) -> Shown:
    """What to show of an evaluation of the run at `place`, with pictures of at most so many bytes in all."""
    small = len(found.classes) <= TABLE_CLASSES
    worst = _worst(run, found, picture_bytes)
    return Shown(
        number=place + 1,
        run=run.name,
        found=found,
        remarks=tuple(_remarks(run, found)),
        matrix=_matrix(found) if small else None,
        picture=None if small else data_uri("png", matrix_png(found.confusion)),
        pairs=most_confused(found),
        worst=worst,
        unpictured=sum(one.picture is None for one in worst),
    )


def most_confused(found: Evaluation, most: int = PAIRS) -> tuple[Pair, ...]:
    """The pairs of label and prediction that share the most rows, the label itself left out."""
    misses = found.confusion.copy()
    np.fill_diagonal(misses, 0)
    flat = misses.ravel()
    order = np.argsort(-flat, kind="stable")[:most]
    rows = found.confusion.sum(axis=1)
    pairs = [(*divmod(int(place), len(misses)), int(flat[place])) for place in order if flat[place] > 0]
    names = [one.name for one in found.classes]
    return tuple(Pair(names[label], names[guess], count, count / int(rows[label])) for label, guess, count in pairs)


def _matrix(found: Evaluation) -> tuple[tuple[tuple[int, float], ...], ...]:
    shares = row_shares(found.confusion)
    return tuple(
        tuple((int(count), float(share)) for count, share in zip(*row, strict=True))
        for row in zip(found.confusion, shares, strict=True)
    )


def _worst(run: Run, found: Evaluation, picture_bytes: int) -> tuple[Worst, ...]:
    rows = []
    for place, one in enumerate(found.worst):
        content = read_picture(run.folder, found.split, place)
        if content is not None and len(content) > picture_bytes:
            content, picture_bytes = None, 0  # of a list that is cut nothing comes after the cut
        picture_bytes -= len(content or b"")
        picture = None if content is None else data_uri("jpeg", content)
        rows.append(Worst(one.key, one.label, one.predicted, one.score, one.loss, picture))
    return tuple(rows)


def _remarks(run: Run, found: Evaluation) -> list[str]:
    said = []
    if not found.same_data:
        said.append(f"This is not the data that the run was trained on, but {found.dataset}.")
    best = number((run.result or {}).get("best_epoch")) or outcome(run).best_epoch
    if best is not None and found.epoch is not None and best != found.epoch:
        said.append(f"It is of the weights of epoch {found.epoch}; the best are now those of epoch {best:g}.")
    return said
