"""MindSpore data pipelines over a sealed split: MindDataset -> recipe -> batches."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mindspore.dataset as ds
import numpy as np
from mindspore import dtype
from mindspore.dataset import Shuffle, transforms, vision
from numpy.typing import NDArray

from schemas.dataset import Dataset
from schemas.errors import ContractError
from schemas.record import NUMERIC
from schemas.storage.files import naming
from trainer.errors import Busy, TrainerError, disk_error_behind, first_line
from trainer.feed.mixing import Mixer, mixes, scaled, scaled_and_erased
from trainer.feed.recipes import RECIPES, Pixels, Recipe
from trainer.feed.threads import FeedSettings

IMAGE_LABEL = ("image", "label")  # roles of the columns that a classifier trains on
# Texts that occur only in errors of MindSpore's data pipeline.
PIPELINE_MARKS = (
    "Dataset Pipeline Error",
    "map operation",
    "MindRecord",
    "mindrecord",
    "minddata",
    "json.exception",
    "no valid data in dataset",
)
UNREAD_MARKS = (
    "Failed to read file",
    "ailed to open file",
    "ailed to read header",
    "ailed to open database",
    "disk I/O error",
)


def train_batches(
    folder: Path,
    dataset: Dataset,
    recipe: Recipe,
    pixels: Pixels,
    batch_size: int,
    effect: FeedSettings,
    roles: Sequence[str] = IMAGE_LABEL,
) -> Any:
    """Return the training pipeline: images float32 (N, 3, S, S), labels int32 (N,).

    If the recipe mixes images, labels are float32 (N, classes). Rows are shuffled in each epoch. With W ranks, each
    rank takes every W-th row of an order that depends only on seed and epoch. A step of W ranks uses the same rows
    as a step of a single rank with a batch W times as large. All ranks have the same number of steps. Rows that do
    not fill a batch on every rank are dropped.
    """
    images = train_transforms(recipe, pixels)
    rows = train_rows(folder, dataset, effect, roles)
    batches = batched(rows, dataset, recipe, images, batch_size, effect, roles)
    return _equal_steps(batches, dataset, batch_size, effect)


def train_rows(folder: Path, dataset: Dataset, effect: FeedSettings, roles: Sequence[str] = IMAGE_LABEL) -> Any:
    """Return the rows of train_batches before transforms: encoded images and labels, shuffled in each epoch."""
    columns = [dataset.schema.column(role) for role in roles]
    return rows_of(folder, dataset, "train", effect, columns, shuffle=Shuffle.GLOBAL, **_rank(effect))


def train_transforms(recipe: Recipe, pixels: Pixels) -> list[Any]:
    """Return the image transforms of train_batches, which map encoded bytes to float32 (3, S, S)."""
    return scaled_and_erased(recipe.train(pixels.size), pixels.mean, pixels.std, pixels.size, recipe.erasing)


def batched(
    rows: Any,
    dataset: Dataset,
    recipe: Recipe,
    images: list[Any],
    batch_size: int,
    effect: FeedSettings,
    roles: Sequence[str] = IMAGE_LABEL,
) -> Any:
    """Return `rows` transformed by `images`, then batched and mixed as in train_batches."""
    return mapped(rows, dataset, images, effect, roles).batch(
        batch_size, drop_remainder=True, num_parallel_workers=effect.batchers, **_mixer(dataset, recipe)
    )


def _equal_steps(batches: Any, dataset: Dataset, batch_size: int, effect: FeedSettings) -> Any:
    steps = dataset.splits["train"].rows // (batch_size * effect.num_shards)
    # MindDataset repeats a row on a rank that has one row less; the repeated row may complete an extra batch.
    return batches.take(steps) if batches.get_dataset_size() > steps else batches


def train_keys(folder: Path, dataset: Dataset, batch_size: int, effect: FeedSettings) -> Any:
    """Return a pipeline with the keys and labels of train_batches, in the same batches and order."""
    columns = [dataset.schema.column("key"), dataset.schema.column("label")]
    rows = rows_of(folder, dataset, "train", effect, columns, shuffle=Shuffle.GLOBAL, **_rank(effect))
    return _equal_steps(rows.batch(batch_size, drop_remainder=True), dataset, batch_size, effect)


def _mixer(dataset: Dataset, recipe: Recipe) -> dict[str, Any]:
    if not mixes(recipe):
        return {}
    columns = [dataset.schema.column("image"), dataset.schema.column("label")]
    mixer = Mixer(len(dataset.classes), recipe.mixup, recipe.cutmix, ds.config.get_seed())
    return {"per_batch_map": mixer, "input_columns": columns}


def eval_batches(
    folder: Path,
    dataset: Dataset,
    split: str,
    recipe: Recipe,
    pixels: Pixels,
    batch_size: int,
    effect: FeedSettings,
    roles: Sequence[str] = IMAGE_LABEL,
) -> Any:
    """Return the evaluation pipeline, which reads each row of `split` once, in stored order.

    Images are float32 (N, 3, S, S), labels int32 (N,). The last batch may be smaller. Each rank reads a contiguous
    slice, because MindDataset's own sharding repeats rows unless the number of ranks divides the number of rows.
    """
    start, count = rank_slice(dataset.splits[split].rows, effect.num_shards, effect.shard_id)
    if not count:
        return NoBatches()
    part = {"shuffle": False, **_rank(effect)}
    if effect.num_shards > 1:
        part = {"sampler": ds.SequentialSampler(start, count)}
    columns = [dataset.schema.column(role) for role in roles]
    rows = rows_of(folder, dataset, split, effect, columns, **part)
    images = scaled(recipe.evaluate(pixels.size), pixels.mean, pixels.std)
    return mapped(rows, dataset, images, effect, roles).batch(batch_size, num_parallel_workers=effect.batchers)


def keyed_batches(
    folder: Path, dataset: Dataset, split: str, recipe: Recipe, pixels: Pixels, batch_size: int, effect: FeedSettings
) -> Any:
    """Return the pipeline of eval_batches with a third column, the row keys: str (N,)."""
    return eval_batches(folder, dataset, split, recipe, pixels, batch_size, effect, ("image", "label", "key"))


class NoBatches:
    """Empty pipeline for a rank without rows, because MindDataset cannot be empty."""

    def create_tuple_iterator(self, num_epochs: int, output_numpy: bool) -> Iterator[Any]:
        """Return an empty iterator."""
        return iter(())


def _rank(effect: FeedSettings) -> dict[str, Any]:
    # Always passed: without these arguments, the row order of an epoch depends on earlier epochs (measured on 2.10).
    return {"num_shards": effect.num_shards, "shard_id": effect.shard_id}


def rows_of(
    folder: Path, dataset: Dataset, split: str, effect: FeedSettings, columns: list[str] | None = None, **selection: Any
) -> Any:
    """Return a pipeline over the encoded rows of a split; the default columns are image and label."""
    schema = dataset.schema
    return ds.MindDataset(
        [str(folder / shard.name) for shard in dataset.splits[split].shards],
        columns_list=columns or [schema.column("image"), schema.column("label")],
        num_parallel_workers=effect.readers,
        **selection,
    )


def encoded_at(folder: Path, dataset: Dataset, split: str, rows: Sequence[int]) -> dict[int, tuple[str, bytes]]:
    """Return {row number: (key, encoded image)} for the given row numbers of a split in stored order."""
    columns = [dataset.schema.column("key"), dataset.schema.column("image")]
    files = [str(folder / shard.name) for shard in dataset.splits[split].shards]
    numbers = sorted(set(rows))
    # The numbers are unique and within the split, because SubsetSampler wraps around at the end of the split.
    selected = ds.MindDataset(files, columns, num_parallel_workers=1, sampler=ds.SubsetSampler(numbers))
    values = selected.create_tuple_iterator(num_epochs=1, output_numpy=True)
    return {number: (str(key), image.tobytes()) for number, (key, image) in zip(numbers, values, strict=True)}


def mapped(
    rows: Any, dataset: Dataset, images: list[Any], effect: FeedSettings, roles: Sequence[str] = IMAGE_LABEL
) -> Any:
    """Apply the transforms `images` to the image column, and cast numeric columns of `roles` to their schema types."""
    rows = rows.map(images, input_columns=[dataset.schema.column("image")], num_parallel_workers=effect.workers)
    for field in dataset.schema.fields:
        if field.role in roles and field.type in NUMERIC:
            cast = transforms.TypeCast(getattr(dtype, field.type))
            rows = rows.map(cast, input_columns=[field.name], num_parallel_workers=1)
    return rows


def try_recipe(name: str, recipe: Recipe, size: int) -> None:
    """Raise TrainerError unless a custom recipe maps a grey JPEG to uint8 (size, size, 3) in both forms."""
    if name in RECIPES:
        return
    grey = vision.encode_jpeg(np.full((96, 128, 3), 128, np.uint8))
    for form in ("train", "evaluate"):
        try:
            rows = ds.NumpySlicesDataset([grey], ["image"]).map(getattr(recipe, form)(size), ["image"])
            [[image]] = rows.create_tuple_iterator(num_epochs=1, output_numpy=True)
        except (RuntimeError, ValueError, TypeError) as error:
            raise TrainerError(f"recipe '{name}': {form}({size}) fails on a grey JPEG: {first_line(error)}") from error
        if (image.shape, image.dtype) != ((size, size, 3), np.uint8):
            raise TrainerError(
                f"recipe '{name}': {form}({size}) returns {image.dtype} of shape {image.shape}, expected "
                f"uint8 of shape ({size}, {size}, 3); normalisation and layout are added after the recipe"
            )


def check_batch(folder: Path, labels: NDArray[Any], classes: int) -> None:
    """Raise ContractError if a label of a batch is not a class number; a row may differ from the checked index."""
    outside = labels[(labels < 0) | (labels >= classes)]
    if outside.size:
        raise ContractError(
            f"rows of {folder} contain the label {outside[0]}, which names no class of dataset.json and differs from "
            "the index; restore the dataset from a copy, or shard again"
        )


@contextlib.contextmanager
def pipeline_errors(folder: Path, find_key: Callable[[], str | None] = lambda: None) -> Iterator[None]:
    """Turn an error of MindSpore's data pipeline into a TrainerError that names the dataset.

    `find_key` returns the key of the image that caused the error, because MindSpore names only a file, sometimes the
    wrong file. A disk error is raised as OSError.
    """
    try:
        yield
    except (RuntimeError, ValueError) as error:
        if not any(mark in str(error) for mark in PIPELINE_MARKS):
            raise
        if (disk := disk_error_behind(error) or _unreadable(folder)) is not None:
            raise disk from None
        if any(mark in str(error) for mark in UNREAD_MARKS):
            raise Busy(
                f"MindSpore could not read a shard of {folder} that passed its checks: {first_line(error)}; "
                "run the same command again; if it fails again, run 'dataprep verify'"
            ) from error
        key = None
        with contextlib.suppress(RuntimeError, ValueError, OSError, StopIteration):  # find_key may fail too
            key = find_key()
        image = f" the image is {key};" if key else ""
        raise TrainerError(
            f"reading {folder} failed: {first_line(error)};{image} 'dataprep verify --decode' finds all such images"
        ) from error


def _unreadable(folder: Path) -> OSError | None:
    """Read each shard again and return the OSError, if any, because MindSpore does not report system errors."""
    try:
        for path in sorted(folder.iterdir()):
            if ".mindrecord" in path.name and path.is_file():
                with path.open("rb", buffering=0) as file, naming(path):
                    file.read(1)
    except OSError as error:
        return error
    return None


def rank_slice(rows: int, ranks: int, rank: int) -> tuple[int, int]:
    """Return (start, length) of the rows that `rank` evaluates; the slices of all ranks cover each row once."""
    start = rows * rank // ranks
    return start, rows * (rank + 1) // ranks - start
