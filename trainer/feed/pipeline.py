"""A split as a MindSpore pipeline: checked files -> MindDataset -> recipe -> batches. Labels are checked first."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mindspore.dataset as ds
import numpy as np
from mindspore import dtype
from mindspore.dataset import Shuffle, transforms, vision
from numpy.typing import NDArray

from schemas.counting import many
from schemas.dataset import Dataset
from schemas.errors import ContractError
from schemas.index_file import open_index
from schemas.layout import index_name
from schemas.record import NUMERIC
from trainer.errors import Busy, TrainerError, disk_error_behind, naming
from trainer.feed.mixing import Mixer, mixes, scaled, scaled_and_erased
from trainer.feed.recipes import RECIPES, Pixels, Recipe
from trainer.feed.threads import FeedSettings

IMAGE_LABEL = ("image", "label")  # roles of the columns that a classifier trains on
# What errors of MindSpore's data pipeline hold, and no others.
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
    """Endless-by-epoch pipeline of float32 (N, 3, S, S) and int32 (N,), or float32 (N, classes) when the recipe mixes.

    Newly shuffled each epoch. Of W ranks, rank r takes every W-th row of an order that depends on seed and epoch alone,
    so a step of W ranks holds the rows of one rank's step with a batch W times as large. All ranks have equally many
    steps; the rows that do not fill a batch on each are dropped.
    """
    images = train_transforms(recipe, pixels)
    rows = train_rows(folder, dataset, effect, roles)
    batches = batched(rows, dataset, recipe, images, batch_size, effect, roles)
    return _equal_steps(batches, dataset, batch_size, effect)


def train_rows(folder: Path, dataset: Dataset, effect: FeedSettings, roles: Sequence[str] = IMAGE_LABEL) -> Any:
    """Where train_batches begins: this rank's rows as bytes and labels, newly shuffled each epoch."""
    columns = [dataset.schema.column(role) for role in roles]
    return rows_of(folder, dataset, "train", effect, columns, shuffle=Shuffle.GLOBAL, **_rank(effect))


def train_transforms(recipe: Recipe, pixels: Pixels) -> list[Any]:
    """What train_batches does to an image: bytes to float32 (3, S, S)."""
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
    """Where train_batches ends: rows of any source, transformed and put into full batches."""
    return mapped(rows, dataset, images, effect, roles).batch(
        batch_size, drop_remainder=True, num_parallel_workers=effect.batchers, **_mixer(dataset, recipe)
    )


def _equal_steps(batches: Any, dataset: Dataset, batch_size: int, effect: FeedSettings) -> Any:
    steps = dataset.splits["train"].rows // (batch_size * effect.num_shards)
    # A rank that was one row short has been given one again, which may fill a last batch.
    return batches.take(steps) if batches.get_dataset_size() > steps else batches


def train_keys(folder: Path, dataset: Dataset, batch_size: int, effect: FeedSettings) -> Any:
    """The batches of train_batches as keys and labels of their images, in the same order."""
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
    """Pipeline over `split` in stored order, each row once; the last batch may be smaller. Images and labels (N,) as in
    training.

    Of several ranks each has a run of rows: MindDataset's own division repeats rows when it does not come out even.
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
    """As eval_batches, with a third column: the rows' keys, str (N,)."""
    return eval_batches(folder, dataset, split, recipe, pixels, batch_size, effect, ("image", "label", "key"))


class NoBatches:
    """The share of a rank for which no rows are left. A MindDataset of no rows cannot be: it would be one of all."""

    def create_tuple_iterator(self, num_epochs: int, output_numpy: bool) -> Iterator[Any]:
        """Nothing, in the form of a pipeline."""
        return iter(())


def _rank(effect: FeedSettings) -> dict[str, Any]:
    # Always given: without it the order of an epoch depends on the epochs before (measured on 2.10).
    return {"num_shards": effect.num_shards, "shard_id": effect.shard_id}


def rows_of(
    folder: Path, dataset: Dataset, split: str, effect: FeedSettings, columns: list[str] | None = None, **which: Any
) -> Any:
    """Pipeline over the rows of a split, undecoded; columns image and label unless others are given."""
    schema = dataset.schema
    return ds.MindDataset(
        [str(folder / shard.name) for shard in dataset.splits[split].shards],
        columns_list=columns or [schema.column("image"), schema.column("label")],
        num_parallel_workers=effect.readers,
        **which,
    )


def encoded_at(folder: Path, dataset: Dataset, split: str, rows: Sequence[int]) -> dict[int, tuple[str, bytes]]:
    """Key and encoded image of the rows at these places of a split in stored order, by place."""
    columns = [dataset.schema.column("key"), dataset.schema.column("image")]
    files = [str(folder / shard.name) for shard in dataset.splits[split].shards]
    places = sorted(set(rows))
    # Each place is given once and lies in the split: beyond that this sampler begins again from the first row.
    picked = ds.MindDataset(files, columns, num_parallel_workers=1, sampler=ds.SubsetSampler(places))
    found = picked.create_tuple_iterator(num_epochs=1, output_numpy=True)
    return {place: (str(key), image.tobytes()) for place, (key, image) in zip(places, found, strict=True)}


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
    """Raise TrainerError unless a recipe of the user's gives uint8 (size, size, 3) in both forms, on a grey JPEG."""
    if name in RECIPES:
        return
    grey = vision.encode_jpeg(np.full((96, 128, 3), 128, np.uint8))
    for form in ("train", "evaluate"):
        try:
            rows = ds.NumpySlicesDataset([grey], ["image"]).map(getattr(recipe, form)(size), ["image"])
            [[image]] = rows.create_tuple_iterator(num_epochs=1, output_numpy=True)
        except (RuntimeError, ValueError, TypeError) as error:
            raise TrainerError(f"recipe '{name}': {form}({size}) fails on a grey JPEG: {cause(error)}") from error
        if (image.shape, image.dtype) != ((size, size, 3), np.uint8):
            raise TrainerError(
                f"recipe '{name}': {form}({size}) makes {image.dtype} of shape {image.shape} of a JPEG, expected "
                f"uint8 of shape ({size}, {size}, 3); scale and layout are added after it"
            )


def check_labels(folder: Path, dataset: Dataset, split: str) -> None:
    """Raise ContractError unless each label names a class, as often as dataset.json says.

    MindSpore trains on without a word when a label is the number of classes, or negative (measured on 2.10). The labels
    are counted in the shards' indexes, whose digests dataset.json seals: as rows they would take MindDataset minutes
    for a million (measured: 80 microseconds a row). A schema of the user's own may leave the label out of the index;
    then the seal alone vouches for it.
    """
    label = dataset.schema.column("label")
    if label not in {field.name for field in dataset.schema.index_fields}:
        return
    counts: Counter[int] = Counter()
    for shard in dataset.splits[split].shards:
        with open_index(folder / index_name(shard.name)) as db:
            counts.update(dict(db.execute(f'SELECT "{label}_0", count(*) FROM INDEXES GROUP BY 1')))
    outside = sorted(set(counts) - set(range(len(dataset.classes))))
    if outside:
        raise ContractError(
            f"{split} of {folder} has {many(sum(counts[value] for value in outside), 'label')} outside "
            f"0..{len(dataset.classes) - 1}, for example {outside[-1]}: they name no class of dataset.json; shard again"
        )
    if [counts[number] for number in range(len(dataset.classes))] != list(dataset.splits[split].class_rows):
        raise ContractError(f"{split} of {folder} does not hold the rows a class that dataset.json counts; shard again")


def check_batch(folder: Path, labels: NDArray[Any], classes: int) -> None:
    """Raise ContractError when a label of a batch names no class: the rows need not hold what the index says."""
    outside = labels[(labels < 0) | (labels >= classes)]
    if outside.size:
        raise ContractError(
            f"rows of {folder} hold the label {outside[0]}, which names no class of dataset.json and is not what their "
            "index holds; restore the set from a copy, or shard again"
        )


@contextlib.contextmanager
def pipeline_errors(folder: Path, find: Callable[[], str | None] = lambda: None) -> Iterator[None]:
    """Turn a failure of MindSpore's data pipeline, a report of many lines, into a TrainerError that names the set.

    `find` looks for the key of the image at fault: MindSpore names a file only, and not always the right one.
    """
    try:
        yield
    except (RuntimeError, ValueError) as error:
        if not any(mark in str(error) for mark in PIPELINE_MARKS):
            raise
        if (away := disk_error_behind(error) or _unreadable(folder)) is not None:
            raise away from None
        if any(mark in str(error) for mark in UNREAD_MARKS):
            raise Busy(
                f"MindSpore could not read a shard of {folder} that was sound when it was checked: {cause(error)}; "
                "run the same command again, and 'dataprep verify' if it fails again"
            ) from error
        key = None
        with contextlib.suppress(RuntimeError, ValueError, OSError, StopIteration):  # it reads the same rows
            key = find()
        at_fault = f" the image is {key};" if key else ""
        raise TrainerError(
            f"reading {folder} failed: {cause(error)};{at_fault} 'dataprep verify --decode' finds all such images"
        ) from error


def _unreadable(folder: Path) -> OSError | None:
    """Return the error that reading a shard meets now: MindSpore does not say which error of the system it met."""
    try:
        for path in sorted(folder.iterdir()):
            if ".mindrecord" in path.name and path.is_file():
                with path.open("rb", buffering=0) as file, naming(path):
                    file.read(1)
    except OSError as error:
        return error
    return None


def cause(error: Exception) -> str:
    """The line of a MindSpore report that says what happened: the one marked so, or else the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    marked = [line.removeprefix("[ERROR]").strip() for line in lines if line.startswith("[ERROR]")]
    return next(iter([*marked, *lines]), type(error).__name__)


def rank_slice(rows: int, ranks: int, rank: int) -> tuple[int, int]:
    """Start and length of the rows that `rank` evaluates: the slices of all ranks cover each row once."""
    start = rows * rank // ranks
    return start, rows * (rank + 1) // ranks - start
