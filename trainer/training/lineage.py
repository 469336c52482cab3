"""Which images a step was trained on, found out again only when a step went wrong: training pays nothing for it."""

import contextlib
import itertools
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import mindspore.dataset as ds
import numpy as np
from mindspore.dataset import Shuffle, vision
from numpy.typing import NDArray

from schemas.storage.files import write_whole
from trainer.feed.pipeline import rows_of, train_batches, train_keys
from trainer.plan.run_plan import RunPlan
from trainer.runs.folder import NONFINITE

READ_AHEAD = 16  # batches beyond those that one operator holds ready: there are several operators
SHOWN = 3  # keys in the sentence; the file has all


def batch_rows(plan: RunPlan, first: int, last: int) -> list[list[tuple[str, int]]]:
    """Key and label of each row of the batches at steps `first` to `last` of an epoch, counted from the run's start.

    A second pass over key and label alone: the order is a function of seed and epoch, whatever columns are read.
    """
    batches = train_keys(plan.folder, plan.dataset, plan.config.batch_size, plan.effect)
    found = []
    for keys, labels in _steps(batches, plan, first, last):
        found.append([(str(key), int(label)) for key, label in zip(keys, labels, strict=True)])
    return found


def _steps(batches: Any, plan: RunPlan, first: int, last: int) -> Any:
    ds.config.set_seed(plan.config.seed)  # training sets another for each epoch
    batches.set_init_step(first - 1)
    iterator = batches.create_tuple_iterator(num_epochs=plan.config.epochs, output_numpy=True)
    for _ in range(last - first + 1):
        yield next(iterator)


def foreign_label(plan: RunPlan, step: int) -> str | None:
    """Return a sentence about a label in the batch after `step` that names no class; None when there is none.

    Their rows need not hold what their index says, which was checked. To be called once a step has failed: MindSpore
    reports such a label as the failure of a kernel, or not at all.
    """
    per_epoch, batch = plan.effect.pipeline_per_epoch, plan.config.batch_size
    # With the image: MindDataset takes columns that are all in the index from there (measured on 2.10).
    columns = [plan.dataset.schema.column(role) for role in ("image", "key", "label")]
    part = {"num_shards": plan.effect.num_shards, "shard_id": plan.effect.shard_id}
    with contextlib.suppress(RuntimeError, ValueError, OSError):
        ds.config.set_seed(plan.config.seed + (step // plan.steps if per_epoch else 0))
        rows = rows_of(plan.folder, plan.dataset, "train", plan.effect, columns, shuffle=Shuffle.GLOBAL, **part)
        begin = 0 if per_epoch else step // plan.steps * rows.get_dataset_size()
        rows.set_init_step(begin + step % plan.steps * batch)
        iterator = rows.create_tuple_iterator(num_epochs=plan.config.epochs, output_numpy=True)
        for _, key, label in itertools.islice(iterator, batch):
            if not 0 <= label < len(plan.dataset.classes):
                return f"the row of {key} holds the label {label}, which names no class and is not what its index holds"
    return None


def undecodable(plan: RunPlan, step: int) -> str | None:
    """The key of an image that MindSpore cannot decode: among those read next after `step`, then in val. None if none.

    The pipeline fails as soon as it reads the image, ahead of the step that needs it by what it holds ready.
    """
    batch, rows = plan.config.batch_size, plan.train_split.rows
    begin = step // plan.steps * rows + step % plan.steps * batch
    ahead = [_encoded(plan, "train", Shuffle.GLOBAL, begin, (READ_AHEAD + plan.effect.prefetch) * batch)]
    if plan.val_split is not None:
        ahead.append(_encoded(plan, "val", False, 0, plan.val_split.rows))
    decode = vision.Decode()
    for image, key in itertools.chain.from_iterable(ahead):
        try:
            decode(np.frombuffer(image.tobytes(), np.uint8))
        except (RuntimeError, ValueError, TypeError):
            return str(key)
    return None


def _encoded(plan: RunPlan, split: str, shuffle: Any, begin: int, count: int) -> Any:
    columns = [plan.dataset.schema.column("image"), plan.dataset.schema.column("key")]
    part = {"num_shards": plan.effect.num_shards, "shard_id": plan.effect.shard_id}
    rows = rows_of(plan.folder, plan.dataset, split, plan.effect, columns, shuffle=shuffle, **part)
    ds.config.set_seed(plan.config.seed)
    rows.set_init_step(begin)
    iterator = rows.create_tuple_iterator(num_epochs=plan.config.epochs + 1, output_numpy=True)
    left = rows.get_dataset_size() - begin % rows.get_dataset_size()
    return (next(iterator) for _ in range(min(count, left)))


def describe(batches: Iterable[NDArray[Any]]) -> str:
    """What the values of some batches are like: their range, and how many are not finite."""
    low, high, bad = math.inf, -math.inf, 0
    for images in batches:
        finite = images[np.isfinite(images)]
        bad += images.size - finite.size
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    return f"inputs from {low:.4g} to {high:.4g}" + (f" and {bad} that are not finite" if bad else "")


def write_report(run: Path, plan: RunPlan, what: str, steps: tuple[int, int], element: Any) -> str:
    """Write RUN/nonfinite.json with every key of the batches at steps first..last; returns the end of a sentence.

    `element` is the batch at hand; with sink there is none, and the batches are read again.
    """
    first, last = steps
    rows = batch_rows(plan, first, last)
    if element:
        inputs = describe([element[0].asnumpy()])
    else:
        again = train_batches(plan.folder, plan.dataset, plan.recipe, plan.pixels, plan.config.batch_size, plan.effect)
        inputs = describe(images for images, _ in _steps(again, plan, first, last))
    images: list[dict[str, Any]] = [
        {"step": first + i, "key": key, "label": label} for i, batch in enumerate(rows) for key, label in batch
    ]
    write_whole(run / NONFINITE, json.dumps({"what": what, "inputs": inputs, "images": images}, indent=1) + "\n")
    shown = ", ".join(image["key"] for image in images[:SHOWN])
    more = f" and {len(images) - SHOWN} more" if len(images) > SHOWN else ""
    return f"the batch has {inputs}, of the images {shown}{more}, all of them in {run / NONFINITE}"
