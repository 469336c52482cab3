"""`trainer predict`: write the most probable classes of image files or of a sealed split, one row per image."""

import csv
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from mindspore.dataset import vision
from numpy.typing import NDArray

from schemas.dataset import Dataset
from schemas.layout import DATASET
from schemas.names import one_line, path_to_key
from trainer.config import RunConfig
from trainer.errors import TrainerError
from trainer.evaluation.evaluate import check_classes, check_kind, open_split
from trainer.evaluation.restore import LoadedModel, Show, in_effect, restore
from trainer.feed.image_file import read_file
from trainer.feed.image_files import Skipped, find_files
from trainer.feed.mixing import scaled
from trainer.feed.picture import NotAnImage, Unreadable, read_picture
from trainer.feed.pipeline import check_batch, eval_batches, pipeline_errors
from trainer.runs import checkpoint
from trainer.runs.folder import scratch


@dataclass(frozen=True)
class Prediction:
    """Prediction for an image: the most probable classes with probabilities, highest first, or an error.

    `name` is the path, or the key of a sealed row. `label` is the class of a sealed row, or its
    classes separated by `|`.
    """

    name: str
    best: tuple[tuple[str, float], ...]
    label: str | None = None
    error: str | None = None
    is_image: bool = True


@dataclass(frozen=True)
class Predicted:
    """Counts of a job: images, images with an error, files that are not images, and skipped paths (`passed_over`)."""

    images: int
    errors: int
    not_images: int = 0
    passed_over: Skipped = field(default_factory=Skipped)


def predict(
    path: Path,
    inputs: Sequence[Path],
    config: RunConfig,
    split: str,
    top: int,
    write: Callable[[Prediction], None],
    show: Show,
    after_batch: Callable[[], None],
    home: Path = Path(),
    threshold: float | None = None,
) -> Predicted:
    """Call `write` with the `top` most probable classes of each image in `inputs`. Return the counts.

    With a `threshold`, classes of a lower probability are left out.

    `inputs` are folders and files, or one sealed dataset. Only device settings and batch size of `config` are used.
    `home` is as in RunPlan, `show` as in in_effect. A file that cannot be read gives a row with an error. Unreadable
    folders and links to folders give no row; `passed_over` of the result lists them. Raises TrainerError if an input is
    missing, and ContractError if the checkpoint or the dataset is damaged.
    """
    file = checkpoint.find(path).resolve()
    sealed = is_sealed(inputs)
    inputs = [Path(os.path.abspath(each)) if sealed else each for each in inputs]
    dataset = open_split(inputs[0], split, config.full_check) if sealed else None
    names, passed_over = ([], Skipped()) if sealed else find_files(inputs)
    files = [(name, Path(os.path.abspath(name))) for name in names]
    effect, home = in_effect(config, show), home.resolve()
    with scratch(None):
        model = restore(file, home, effect)
        model.require_classes("predict")
        if dataset is not None:
            check_kind(model, dataset, inputs[0])
            check_classes(model.meta, dataset, file, inputs[0])
            batches = _sealed_rows(model, inputs[0], dataset, split, config.batch_size, top)
        else:
            batches = _file_rows(model, files, config.batch_size, top)
        images = errors = others = 0
        for predictions in batches:
            for prediction in predictions:
                write(_above(prediction, threshold))
                others += not prediction.is_image
                images += prediction.is_image
                errors += prediction.is_image and prediction.error is not None
            after_batch()
    return Predicted(images, errors, others, passed_over)


def _above(prediction: Prediction, threshold: float | None) -> Prediction:
    best = tuple(one for one in prediction.best if threshold is None or one[1] >= threshold)
    return replace(prediction, best=best)


def is_sealed(inputs: Sequence[Path]) -> bool:
    """Return True if the input is a sealed dataset. Raises TrainerError if a sealed dataset is not the only input."""
    sealed = [each for each in inputs if os.path.isfile(each / DATASET)]  # False for an unreadable folder
    if sealed and len(inputs) > 1:
        raise TrainerError(f"{sealed[0]} is a sealed dataset: it must be the only INPUT")
    return bool(sealed)


def _sealed_rows(
    model: LoadedModel, folder: Path, dataset: Dataset, split: str, batch_size: int, top: int
) -> Iterator[list[Prediction]]:
    recipe = model.recipe
    with pipeline_errors(folder):
        columns = (*model.task.columns, "key")
        source = folder, dataset, split, recipe, model.meta.pixels, batch_size, model.effect
        batches = eval_batches(*source, columns)
        for images, targets, keys in batches.create_tuple_iterator(num_epochs=1, output_numpy=True):
            if not model.task.several:
                check_batch(folder, targets, len(dataset.classes))
            best = best_classes(_probabilities(model, images, batch_size), model.meta.classes, top)
            rows = zip(keys, best, targets, strict=True)
            yield [Prediction(str(key), classes, _named(target, dataset.classes)) for key, classes, target in rows]


def _named(target: Any, classes: Sequence[str]) -> str:
    """Return the class of a label, or the classes of a multi-hot array separated by `|`."""
    if np.ndim(target) == 0:
        return str(classes[target])
    return "|".join(name for name, has in zip(classes, target, strict=True) if has)


def _probabilities(model: LoadedModel, images: NDArray[np.float32], batch_size: int) -> NDArray[Any]:
    assert model.task.probabilities is not None
    probabilities: NDArray[Any] = model.task.probabilities(model.logits(images, batch_size))
    return probabilities


def _file_rows(
    model: LoadedModel, files: Sequence[tuple[Path, Path]], batch_size: int, top: int
) -> Iterator[list[Prediction]]:
    # All transforms of evaluation except decoding: read_picture decodes.
    steps = model.recipe.evaluate(model.meta.pixels.size)
    steps = [step for step in steps if not isinstance(step, vision.Decode)]
    steps = scaled(steps, model.meta.pixels.mean, model.meta.pixels.std)

    def read(path: Path) -> NDArray[np.float32] | Unreadable:
        try:
            image: Any = read_picture(read_file(path), model.meta.policy)
        except OSError as error:
            return Unreadable(error.strerror or type(error).__name__)
        except Unreadable as error:
            return error
        for step in steps:
            image = step(image)
        return image  # type: ignore[no-any-return]

    left = iter(files)
    with ThreadPoolExecutor(model.effect.workers) as threads:
        while batch := list(islice(left, batch_size)):
            results = list(threads.map(read, [path for _, path in batch]))
            images = [image for image in results if not isinstance(image, Unreadable)]
            scores = _probabilities(model, np.stack(images), batch_size) if images else np.empty((0, 0))
            best = iter(best_classes(scores, model.meta.classes, top))
            yield [
                _unreadable(str(name), image) if isinstance(image, Unreadable) else Prediction(str(name), next(best))
                for (name, _), image in zip(batch, results, strict=True)
            ]


def _unreadable(name: str, error: Unreadable) -> Prediction:
    return Prediction(name, (), error=str(error), is_image=not isinstance(error, NotAnImage))


def best_classes(scores: NDArray[Any], classes: Sequence[str], top: int) -> list[tuple[tuple[str, float], ...]]:
    """Return the `top` highest (class, score) pairs for each row of probabilities (N, classes).

    Among equal scores the lower class number comes first.
    """
    if not len(scores):
        return []
    order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    return [tuple((classes[i], float(row[i])) for i in best) for row, best in zip(scores, order, strict=True)]


def csv_writer(stream: TextIO, name: str, sealed: bool, top: int) -> Callable[[Prediction], None]:
    r"""Return a function that writes one CSV line per prediction; the first column is called `name`.

    The other columns depend on `sealed` and `top`. The header is written with the first row, so a job that fails early
    writes nothing. Names that are not UTF-8 are written as keys, and control characters as escapes such as \x1b, so
    each row is one line.
    """
    writer = csv.writer(stream, lineterminator="\n")
    own = "label" if sealed else "error"
    header = [name, own, *(f"{what}_{i + 1}" for i in range(top) for what in ("class", "score"))]

    def write(prediction: Prediction) -> None:
        if header:
            writer.writerow(header)
            header.clear()
        cells = [cell for name, score in prediction.best for cell in (name, f"{score:.6f}")]
        cells += [""] * (2 * top - len(cells))
        own_cell = (prediction.label if sealed else prediction.error) or ""
        writer.writerow([one_line(cell) for cell in (_name(prediction, sealed), own_cell, *cells)])

    return write


def _name(prediction: Prediction, sealed: bool) -> str:
    return prediction.name if sealed else path_to_key(prediction.name)  # the name of a sealed row is already a key


def jsonl_writer(stream: TextIO, name: str) -> Callable[[Prediction], None]:
    """Return a function that writes one JSON object per line; `name` is the JSON key of the path or row key."""

    def write(prediction: Prediction) -> None:
        row: dict[str, Any] = {name: _name(prediction, name == "key")}
        if prediction.label is not None:
            row["label"] = prediction.label
        if prediction.error is not None:
            row["error"] = prediction.error
        else:
            row["classes"] = [{"class": each, "score": round(score, 6)} for each, score in prediction.best]
        stream.write(json.dumps(row) + "\n")

    return write
