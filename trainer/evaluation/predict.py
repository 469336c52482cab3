"""`trainer predict`: the best classes of images on disk or of a sealed split, a row each, whatever the file is."""

import csv
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from mindspore.dataset import vision
from numpy.typing import NDArray

from schemas.layout import DATASET
from schemas.names import one_line, path_to_key
from trainer.config import RunConfig
from trainer.errors import TrainerError
from trainer.evaluation.details import log_softmax
from trainer.evaluation.evaluate import check_classes, open_split
from trainer.evaluation.restore import LoadedModel, Show, in_effect, restore
from trainer.feed.image_file import read_file
from trainer.feed.image_files import Skipped, find_files
from trainer.feed.mixing import scaled
from trainer.feed.picture import NotAnImage, Unreadable, read_picture
from trainer.feed.pipeline import check_batch, keyed_batches, pipeline_errors
from trainer.runs import checkpoint
from trainer.runs.folder import scratch


@dataclass(frozen=True)
class Prediction:
    """One image: its best classes with their scores (softmax, 0..1), the best first, or the error instead.

    `name` is the path, or the key of a sealed row; `label` is a sealed row's own class.
    """

    name: str
    best: tuple[tuple[str, float], ...]
    label: str | None = None
    error: str | None = None
    is_image: bool = True


@dataclass(frozen=True)
class Predicted:
    """What came of a job: the images with a row, how many of them carry an error, files with a row that are no images,
    and what has no row at all.
    """

    images: int
    errors: int
    not_images: int = 0
    passed_over: Skipped = field(default_factory=Skipped)


def predict(
    path: Path,
    inputs: Sequence[Path],
    asked: RunConfig,
    split: str,
    top: int,
    write: Callable[[Prediction], None],
    show: Show,
    each_batch: Callable[[], None],
    home: Path = Path(),
) -> Predicted:
    """Give `write` the `top` best classes of each image of `inputs`: folders, files, or one sealed dataset.

    `asked` carries the device settings and the batch size; `home` is as in RunPlan. Raises TrainerError for inputs
    that are not there, ContractError for a damaged checkpoint or set; a file that cannot be read is a row with
    its error. Folders that cannot be listed and folders behind links have no row: they are named in the result.
    """
    file = checkpoint.find(path).resolve()
    sealed = is_sealed(inputs)
    inputs = [Path(os.path.abspath(each)) if sealed else each for each in inputs]
    dataset = open_split(inputs[0], split, asked.full_check) if sealed else None
    found_files, passed_over = ([], Skipped()) if sealed else find_files(inputs)
    files = [(name, Path(os.path.abspath(name))) for name in found_files]
    effect, home = in_effect(asked, show), home.resolve()
    with scratch(None):
        ready = restore(file, home, effect)
        if dataset is not None:
            check_classes(ready.meta, dataset, file, inputs[0])
            found = _sealed_rows(ready, inputs[0], dataset, split, asked.batch_size, top)
        else:
            found = _file_rows(ready, files, asked.batch_size, top)
        images = errors = others = 0
        for predictions in found:
            for prediction in predictions:
                write(prediction)
                others += not prediction.is_image
                images += prediction.is_image
                errors += prediction.is_image and prediction.error is not None
            each_batch()
    return Predicted(images, errors, others, passed_over)


def is_sealed(inputs: Sequence[Path]) -> bool:
    """Whether the input is a sealed dataset; raises TrainerError when it is one of several inputs."""
    sealed = [each for each in inputs if os.path.isfile(each / DATASET)]  # False for a closed folder, too
    if sealed and len(inputs) > 1:
        raise TrainerError(f"{sealed[0]} is a sealed dataset: give it alone")
    return bool(sealed)


def _sealed_rows(
    ready: LoadedModel, folder: Path, dataset: Any, split: str, batch_size: int, top: int
) -> Iterator[list[Prediction]]:
    recipe = ready.recipe
    with pipeline_errors(folder):
        batches = keyed_batches(folder, dataset, split, recipe, ready.meta.pixels, batch_size, ready.effect)
        for images, labels, keys in batches.create_tuple_iterator(num_epochs=1, output_numpy=True):
            check_batch(folder, labels, len(dataset.classes))
            best = best_classes(ready.logits(images, batch_size), ready.meta.classes, top)
            rows = zip(keys, best, labels, strict=True)
            yield [Prediction(str(key), classes, dataset.classes[label]) for key, classes, label in rows]


def _file_rows(
    ready: LoadedModel, files: Sequence[tuple[Path, Path]], batch_size: int, top: int
) -> Iterator[list[Prediction]]:
    # What evaluation does to an image, without its first step: the decoding is ours.
    steps = ready.recipe.evaluate(ready.meta.pixels.size)
    steps = [step for step in steps if not isinstance(step, vision.Decode)]
    steps = scaled(steps, ready.meta.pixels.mean, ready.meta.pixels.std)

    def read(place: Path) -> NDArray[np.float32] | Unreadable:
        try:
            image: Any = read_picture(read_file(place), ready.meta.policy)
        except OSError as error:
            return Unreadable(error.strerror or type(error).__name__)
        except Unreadable as error:
            return error
        for step in steps:
            image = step(image)
        return image  # type: ignore[no-any-return]

    left = iter(files)
    with ThreadPoolExecutor(ready.effect.workers) as threads:
        while part := list(islice(left, batch_size)):  # in parts: memory does not grow with the files
            read_in = list(threads.map(read, [place for _, place in part]))
            images = [image for image in read_in if not isinstance(image, Unreadable)]
            logits = ready.logits(np.stack(images), batch_size) if images else np.empty((0, 0))
            best = iter(best_classes(logits, ready.meta.classes, top))
            yield [
                _refused(str(name), image) if isinstance(image, Unreadable) else Prediction(str(name), next(best))
                for (name, _), image in zip(part, read_in, strict=True)
            ]


def _refused(name: str, why: Unreadable) -> Prediction:
    return Prediction(name, (), error=str(why), is_image=not isinstance(why, NotAnImage))


def best_classes(logits: NDArray[Any], classes: Sequence[str], top: int) -> list[tuple[tuple[str, float], ...]]:
    """For each row of logits (N, classes) the `top` classes of the highest scores; of equals the lower class first."""
    if not len(logits):
        return []
    scores = np.exp(log_softmax(logits.astype(np.float64)))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    return [tuple((classes[i], float(row[i])) for i in best) for row, best in zip(scores, order, strict=True)]


def csv_writer(stream: TextIO, name: str, sealed: bool, top: int) -> Callable[[Prediction], None]:
    r"""Write a line per prediction, ahead of the first the head line: `name` heads the first column. So a job that is
    refused has written nothing.

    Bytes of names that are not UTF-8 are written as in keys, control characters as \x1b, so that a line is a row.
    """
    writer = csv.writer(stream, lineterminator="\n")
    own = "label" if sealed else "error"
    head = [name, own, *(f"{what}_{i + 1}" for i in range(top) for what in ("class", "score"))]

    def write(found: Prediction) -> None:
        if head:
            writer.writerow(head)
            head.clear()
        cells = [cell for name, score in found.best for cell in (name, f"{score:.6f}")]
        cells += [""] * (2 * top - len(cells))
        own_cell = (found.label if sealed else found.error) or ""
        writer.writerow([one_line(cell) for cell in (_name(found, sealed), own_cell, *cells)])

    return write


def _name(found: Prediction, sealed: bool) -> str:
    return found.name if sealed else path_to_key(found.name)  # of a sealed row it is a key already


def jsonl_writer(stream: TextIO, name: str) -> Callable[[Prediction], None]:
    """Writes one JSON object a line; `name` is the key of the path or row key."""

    def write(found: Prediction) -> None:
        row: dict[str, Any] = {name: _name(found, name == "key")}
        if found.label is not None:
            row["label"] = found.label
        if found.error is not None:
            row["error"] = found.error
        else:
            row["classes"] = [{"class": each, "score": round(score, 6)} for each, score in found.best]
        stream.write(json.dumps(row) + "\n")

    return write
