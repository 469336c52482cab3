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

    If the recipe mixes images, labels are float32 (N, classes). Rows are shuffled in each epoch. Of W ranks, rank r
    takes every W-th row of an order that depends on seed and epoch only, so a step of W ranks has the rows of one
    rank's step with a batch W times as large. All ranks have the same number of steps; rows that do not fill a batch
    on every rank are dropped.
    """
    images = train_transforms(recipe, pixels)
    rows = train_rows(folder, dataset, effect, roles)
    batches = batched(rows, dataset, recipe, images, batch_size, effect, roles)
    return _equal_steps(batches, dataset, batch_size, effect)


def train_rows(folder: Path, dataset: Dataset, effect: FeedSettings, roles: Sequence[str] = IMAGE_LABEL) -> Any:
    """Return the source of train_batches: this rank's encoded images and labels, shuffled in each epoch."""
    columns = [dataset.schema.column(role) for role in roles]
    return rows_of(folder, dataset, "train", effect, columns, shuffle=Shuffle.GLOBAL, **_rank(effect))


def train_transforms(recipe: Recipe, pixels: Pixels) -> list[Any]:
    """Return the image transforms of train_batches: bytes to float32 (3, S, S)."""
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
    """Return rows of any source transformed and batched as in train_batches."""
    return mapped(rows, dataset, images, effect, roles).batch(
        batch_size, drop_remainder=True, num_parallel_workers=effect.batchers, **_mixer(dataset, recipe)
    )


def _equal_steps(batches: Any, dataset: Dataset, batch_size: int, effect: FeedSettings) -> Any:
    steps = dataset.splits["train"].rows // (batch_size * effect.num_shards)
    # MindDataset repeats a row on a rank that is one short, which may fill one more batch.
    return batches.take(steps) if batches.get_dataset_size() > steps else batches


def train_keys(folder: Path, dataset: Dataset, batch_size: int, effect: FeedSettings) -> Any:
    """Return the keys and labels of the images in train_batches, in the same batches and order."""
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
    """Return the pipeline over `split` in stored order, each row once; the last batch may be smaller.

    Images float32 (N, 3, S, S), labels int32 (N,). Each of several ranks reads a contiguous slice: MindDataset's own
    sharding repeats rows when the ranks do not divide them evenly.
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
    """Return eval_batches with a third column: the keys of the rows, str (N,)."""
    return eval_batches(folder, dataset, split, recipe, pixels, batch_size, effect, ("image", "label", "key"))


class NoBatches:
    """An empty pipeline for a rank without rows: MindDataset cannot be empty."""

    def create_tuple_iterator(self, num_epochs: int, output_numpy: bool) -> Iterator[Any]:
        """Return an empty iterator."""
        return iter(())


def _rank(effect: FeedSettings) -> dict[str, Any]:
    # Always passed: otherwise the order of an epoch depends on earlier epochs (measured on 2.10).
    return {"num_shards": effect.num_shards, "shard_id": effect.shard_id}


def rows_of(
    folder: Path, dataset: Dataset, split: str, effect: FeedSettings, columns: list[str] | None = None, **selection: Any
) -> Any:
    """Return a pipeline over the undecoded rows of a split; the default columns are image and label."""
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
    # Numbers are unique and within the split: this sampler wraps around past its end.
    selected = ds.MindDataset(files, columns, num_parallel_workers=1, sampler=ds.SubsetSampler(numbers))
    values = selected.create_tuple_iterator(num_epochs=1, output_numpy=True)
    return {number: (str(key), image.tobytes()) for number, (key, image) in zip(numbers, values, strict=True)}


def mapped(
    rows: Any, dataset: Dataset, images: list[Any], effect: FeedSettings, roles: Sequence[str] = IMAGE_LABEL
) -> Any:
    """Apply `images` to the image column, and cast each numeric column of `roles` to the type in the schema."""
    rows = rows.map(images, input_columns=[dataset.schema.column("image")], num_parallel_workers=effect.workers)
    for field in dataset.schema.fields:
        if field.role in roles and field.type in NUMERIC:
            cast = transforms.TypeCast(getattr(dtype, field.type))
            rows = rows.map(cast, input_columns=[field.name], num_parallel_workers=1)
    return rows


def try_recipe(name: str, recipe: Recipe, size: int) -> None:
    """Raise TrainerError unless a custom recipe turns a grey JPEG into uint8 (size, size, 3) in both forms."""
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
                f"uint8 of shape ({size}, {size}, 3); normalisation and layout are added after it"
            )


def check_batch(folder: Path, labels: NDArray[Any], classes: int) -> None:
    """Raise ContractError if a label of a batch names no class: rows may differ from the index."""
    outside = labels[(labels < 0) | (labels >= classes)]
    if outside.size:
        raise ContractError(
            f"rows of {folder} contain the label {outside[0]}, which names no class of dataset.json and differs from "
            "the index; restore the dataset from a copy, or shard again"
        )


@contextlib.contextmanager
def pipeline_errors(folder: Path, find_key: Callable[[], str | None] = lambda: None) -> Iterator[None]:
    """Turn an error of MindSpore's data pipeline into a TrainerError that names the dataset.

    `find_key` returns the key of the image that caused it: MindSpore names only a file, and not always the right one.
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
        with contextlib.suppress(RuntimeError, ValueError, OSError, StopIteration):  # reads the same rows
            key = find_key()
        image = f" the image is {key};" if key else ""
        raise TrainerError(
            f"reading {folder} failed: {first_line(error)};{image} 'dataprep verify --decode' finds all such images"
        ) from error


def _unreadable(folder: Path) -> OSError | None:
    """Return the error of reading a shard now, if any: MindSpore does not report the system's error."""
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
