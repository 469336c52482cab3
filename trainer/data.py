"""A split as a MindSpore pipeline: checked files -> MindDataset -> recipe -> batches. Labels are checked first."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mindspore.dataset as ds
import numpy as np
from mindspore import dtype
from mindspore.dataset import Shuffle, transforms

from schemas.dataset import Dataset
from schemas.errors import ContractError
from trainer.device import InEffect
from trainer.errors import TrainerError
from trainer.plan import Pixels
from trainer.recipes import Recipe, scaled

LABEL_BATCH = 4096


def train_batches(
    folder: Path, dataset: Dataset, recipe: Recipe, pixels: Pixels, batch_size: int, effect: InEffect
) -> Any:
    """Endless-by-epoch pipeline of (float32 (N, 3, S, S), int32 (N,)), newly shuffled each epoch, last part dropped."""
    rows = _rows(folder, dataset, "train", effect, shuffle=Shuffle.GLOBAL)
    images = scaled(recipe.train(pixels.size), pixels.mean, pixels.std)
    return _mapped(rows, dataset, images, effect).batch(batch_size, drop_remainder=True)


def eval_batches(
    folder: Path, dataset: Dataset, split: str, recipe: Recipe, pixels: Pixels, batch_size: int, effect: InEffect
) -> Any:
    """Pipeline over `split` in stored order, each row once; the last batch may be smaller. Shapes as in training."""
    rows = _rows(folder, dataset, split, effect, shuffle=False)
    images = scaled(recipe.evaluate(pixels.size), pixels.mean, pixels.std)
    return _mapped(rows, dataset, images, effect).batch(batch_size, drop_remainder=False)


def _rows(folder: Path, dataset: Dataset, split: str, effect: InEffect, shuffle: Any, images: bool = True) -> Any:
    schema = dataset.schema
    # num_shards is always given: without it the order of an epoch depends on the epochs before (measured on 2.10).
    return ds.MindDataset(
        [str(folder / shard.name) for shard in dataset.splits[split].shards],
        columns_list=[schema.column("image"), schema.column("label")] if images else [schema.column("label")],
        num_parallel_workers=effect.workers,
        shuffle=shuffle,
        num_shards=effect.num_shards,
        shard_id=effect.shard_id,
    )


def _mapped(rows: Any, dataset: Dataset, images: list[Any], effect: InEffect) -> Any:
    image, label = dataset.schema.column("image"), dataset.schema.column("label")
    rows = rows.map(images, input_columns=[image], num_parallel_workers=effect.workers)
    return rows.map(transforms.TypeCast(dtype.int32), input_columns=[label], num_parallel_workers=1)


def check_labels(folder: Path, dataset: Dataset, split: str, effect: InEffect) -> None:
    """Raise ContractError unless each label names a class, as often as dataset.json says.

    MindSpore trains on without a word when a label is the number of classes, or negative (measured on 2.10).
    Reads the label column alone, which is quick beside decoding.
    """
    rows = _rows(folder, dataset, split, effect, shuffle=False, images=False).batch(LABEL_BATCH)
    labels = np.concatenate([batch for (batch,) in rows.create_tuple_iterator(num_epochs=1, output_numpy=True)])
    outside = labels[(labels < 0) | (labels >= len(dataset.classes))]
    if outside.size:
        raise ContractError(
            f"{split} of {folder} has {outside.size} labels outside 0..{len(dataset.classes) - 1}, for example "
            f"{outside[0]}: they name no class of dataset.json; shard again"
        )
    counts = np.bincount(labels, minlength=len(dataset.classes))
    if counts.tolist() != list(dataset.splits[split].class_rows):
        raise ContractError(f"{split} of {folder} does not hold the rows a class that dataset.json counts; shard again")


@contextlib.contextmanager
def pipeline_errors(folder: Path) -> Iterator[None]:
    """Turn a failure of MindSpore's data pipeline, a report of many lines, into a TrainerError that names the set."""
    try:
        yield
    except RuntimeError as error:
        text = str(error)
        if "Dataset Pipeline Error" not in text and "map operation" not in text and "MindRecord" not in text:
            raise
        first = next((line.strip() for line in text.splitlines() if line.strip()), "no message")
        raise TrainerError(f"reading {folder} failed: {first}; 'dataprep verify' finds damaged shards") from error
