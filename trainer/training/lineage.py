"""Find the images of a failed step by reading its rows again, so that training has no overhead."""

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

READ_AHEAD = 16  # batches that a pipeline prefetches in addition to the prefetch size of a single operator
SHOWN = 3  # keys in the message; nonfinite.json has all keys


def batch_rows(plan: RunPlan, first: int, last: int) -> list[list[tuple[str, float]]]:
    """Return (key, label) of each row in the batches of steps `first` to `last`, counted from 1 over the whole run.

    Only keys and labels are read: the order of the rows depends on seed and epoch, not on the columns.
    """
    batches = train_keys(plan.folder, plan.dataset, plan.config.batch_size, plan.effect)
    steps = _steps(batches, plan, first, last)
    return [[(str(key), label.item()) for key, label in zip(*step, strict=True)] for step in steps]


def _steps(batches: Any, plan: RunPlan, first: int, last: int) -> Any:
    ds.config.set_seed(plan.config.seed)  # training sets a different seed for each epoch
    batches.set_init_step(first - 1)
    iterator = batches.create_tuple_iterator(num_epochs=plan.config.epochs, output_numpy=True)
    for _ in range(last - first + 1):
        yield next(iterator)


def invalid_label(plan: RunPlan, step: int) -> str | None:
    """Return a phrase about an invalid label in the batch after `step`, or None if all labels are class numbers.

    Call this function after a step has failed. The check before the run reads only the labels in the index, and the
    labels in the rows may differ. MindSpore reports an invalid label as the failure of a kernel, or not at all.
    """
    if not plan.task.classifies:
        return None
    per_epoch, batch = plan.effect.pipeline_per_epoch, plan.config.batch_size
    # Includes the image: MindDataset would read key and label alone from the index (measured on 2.10).
    columns = [plan.dataset.schema.column(role) for role in ("image", "key", "label")]
    rank = {"num_shards": plan.effect.num_shards, "shard_id": plan.effect.shard_id}
    with contextlib.suppress(RuntimeError, ValueError, OSError):
        ds.config.set_seed(plan.config.seed + (step // plan.steps if per_epoch else 0))
        rows = rows_of(plan.folder, plan.dataset, "train", plan.effect, columns, shuffle=Shuffle.GLOBAL, **rank)
        begin = 0 if per_epoch else step // plan.steps * rows.get_dataset_size()
        rows.set_init_step(begin + step % plan.steps * batch)
        iterator = rows.create_tuple_iterator(num_epochs=plan.config.epochs, output_numpy=True)
        for _, key, label in itertools.islice(iterator, batch):
            if not 0 <= label < len(plan.dataset.classes):
                return f"the row of {key} has the label {label}, which is not a class number and differs from the index"
    return None


def undecodable(plan: RunPlan, step: int) -> str | None:
    """Return the key of an image, in the rows after `step` or in val, that MindSpore cannot decode, or None.

    The rows after `step` are included because the pipeline prefetches: it fails before the step that needs the image.
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
    rank = {"num_shards": plan.effect.num_shards, "shard_id": plan.effect.shard_id}
    rows = rows_of(plan.folder, plan.dataset, split, plan.effect, columns, shuffle=shuffle, **rank)
    ds.config.set_seed(plan.config.seed)
    rows.set_init_step(begin)
    iterator = rows.create_tuple_iterator(num_epochs=plan.config.epochs + 1, output_numpy=True)
    left = rows.get_dataset_size() - begin % rows.get_dataset_size()
    return (next(iterator) for _ in range(min(count, left)))


def describe(batches: Iterable[NDArray[Any]]) -> str:
    """Return a phrase with the range of the finite values and the number of non-finite values."""
    low, high, bad = math.inf, -math.inf, 0
    for images in batches:
        finite = images[np.isfinite(images)]
        bad += images.size - finite.size
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    return f"inputs from {low:.4g} to {high:.4g}" + (f" and {bad} non-finite values" if bad else "")


def write_nonfinite(run: Path, plan: RunPlan, problem: str, steps: tuple[int, int], element: Any) -> str:
    """Write all keys in the batches of `steps` (first, last) to RUN/nonfinite.json. Return a phrase about the batches.

    `element` is the current batch. With data sinking `element` is empty, and the batches are read again.
    """
    first, last = steps
    rows = batch_rows(plan, first, last)
    if element:
        inputs = describe([element[0].asnumpy()])
    else:
        source = plan.folder, plan.dataset, plan.recipe, plan.pixels
        batches = train_batches(*source, plan.config.batch_size, plan.effect, plan.task.columns)
        inputs = describe(images for images, _ in _steps(batches, plan, first, last))
    images = [{"step": first + i, "key": key, "label": label} for i, batch in enumerate(rows) for key, label in batch]
    write_whole(run / NONFINITE, json.dumps({"what": problem, "inputs": inputs, "images": images}, indent=1) + "\n")
    shown = ", ".join(str(image["key"]) for image in images[:SHOWN])
    more = f" and {len(images) - SHOWN} more" if len(images) > SHOWN else ""
    return f"the batch has {inputs} and the images {shown}{more}; all are listed in {run / NONFINITE}"
