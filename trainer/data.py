"""A split as a MindSpore pipeline: checked files -> MindDataset -> recipe -> batches. Labels are checked first."""

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mindspore.dataset as ds
from mindspore import dtype
from mindspore.dataset import Shuffle, transforms

from schemas.dataset import Dataset
from schemas.errors import ContractError
from schemas.layout import index_name
from trainer.device import InEffect
from trainer.errors import TrainerError
from trainer.plan import Pixels
from trainer.ranks import rank_slice
from trainer.recipes import Recipe, scaled


def train_batches(
    folder: Path, dataset: Dataset, recipe: Recipe, pixels: Pixels, batch_size: int, effect: InEffect
) -> Any:
    """Endless-by-epoch pipeline of (float32 (N, 3, S, S), int32 (N,)), newly shuffled each epoch, last part dropped."""
    rows = _rows(folder, dataset, "train", effect, shuffle=Shuffle.GLOBAL)
    images = scaled(recipe.train(pixels.size), pixels.mean, pixels.std)
    batches = _mapped(rows, dataset, images, effect).batch(batch_size, drop_remainder=True)
    # Ranks get equally many rows, some of them twice; what that adds is left out, so that no row comes twice.
    steps = dataset.splits["train"].rows // (batch_size * effect.num_shards)
    return batches if batches.get_dataset_size() == steps else batches.take(steps)


def eval_batches(
    folder: Path, dataset: Dataset, split: str, recipe: Recipe, pixels: Pixels, batch_size: int, effect: InEffect
) -> Any:
    """Pipeline over `split` in stored order, each row once; the last batch may be smaller. Shapes as in training.

    Of several ranks each gets its own slice, which may be empty: None.
    """
    start, count = rank_slice(dataset.splits[split].rows, effect.num_shards, effect.shard_id)
    if not count:
        return None
    rows = _rows(folder, dataset, split, effect, shuffle=False, part=(start, count))
    images = scaled(recipe.evaluate(pixels.size), pixels.mean, pixels.std)
    return _mapped(rows, dataset, images, effect).batch(batch_size, drop_remainder=False)


def keyed_batches(
    folder: Path, dataset: Dataset, split: str, recipe: Recipe, pixels: Pixels, batch_size: int, effect: InEffect
) -> Any:
    """As eval_batches, with a third column: the rows' keys, str (N,)."""
    rows = _rows(folder, dataset, split, effect, shuffle=False, roles=("image", "label", "key"))
    images = scaled(recipe.evaluate(pixels.size), pixels.mean, pixels.std)
    return _mapped(rows, dataset, images, effect).batch(batch_size, drop_remainder=False)


def _rows(
    folder: Path,
    dataset: Dataset,
    split: str,
    effect: InEffect,
    shuffle: Any,
    roles: tuple[str, ...] = ("image", "label"),
    part: tuple[int, int] | None = None,
) -> Any:
    schema = dataset.schema
    which = {"shuffle": shuffle, "num_shards": effect.num_shards, "shard_id": effect.shard_id}
    if part is not None and effect.num_shards > 1:  # num_shards repeats rows where the ranks do not divide them
        which = {"sampler": ds.SequentialSampler(*part)}
    # num_shards is always given: without it the order of an epoch depends on the epochs before (measured on 2.10).
    return ds.MindDataset(
        [str(folder / shard.name) for shard in dataset.splits[split].shards],
        columns_list=[schema.column(role) for role in roles],
        num_parallel_workers=effect.workers,
        **which,
    )


def _mapped(rows: Any, dataset: Dataset, images: list[Any], effect: InEffect) -> Any:
    image, label = dataset.schema.column("image"), dataset.schema.column("label")
    rows = rows.map(images, input_columns=[image], num_parallel_workers=effect.workers)
    return rows.map(transforms.TypeCast(dtype.int32), input_columns=[label], num_parallel_workers=1)


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
        index = (folder / index_name(shard.name)).absolute().as_uri()
        with contextlib.closing(sqlite3.connect(f"{index}?mode=ro&immutable=1", uri=True)) as db:
            counts.update(dict(db.execute(f'SELECT "{label}_0", count(*) FROM INDEXES GROUP BY 1')))
    outside = sorted(set(counts) - set(range(len(dataset.classes))))
    if outside:
        raise ContractError(
            f"{split} of {folder} has {sum(counts[value] for value in outside)} labels outside "
            f"0..{len(dataset.classes) - 1}, for example {outside[-1]}: they name no class of dataset.json; shard again"
        )
    if [counts[number] for number in range(len(dataset.classes))] != list(dataset.splits[split].class_rows):
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
