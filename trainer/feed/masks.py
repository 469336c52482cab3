"""Batches of images and masks, to train segmenters on records of kind segmentation."""

from pathlib import Path
from typing import Any

import mindspore.dataset as ds
from mindspore import dtype
from mindspore.dataset import Shuffle, transforms, vision
from mindspore.dataset.vision import ConvertMode, Inter

from schemas.dataset import load_dataset
from schemas.errors import ContractError
from trainer.feed.boxes import normalise
from trainer.feed.integrity import check_files

_MARGIN = 1.125  # side of a training image before the random crop


def segmentation_batches(
    folder: Path, split: str, size: int, batch_size: int, train: bool = False, workers: int = 1
) -> Any:
    """Return batches of the images and masks of a split, each resized to `size` x `size` pixels.

    The columns, for N images:

        image  float32 (N, 3, size, size), normalised with the mean and standard deviation of the dataset
        mask   int32 (N, size, size): the values of the stored masks; they are never mixed

    With `train`, rows are shuffled in each epoch, images and masks are cropped and flipped alike at random, and rows
    that do not fill a batch are dropped. `mindspore.dataset.config.set_seed` makes both repeatable. Masks are of up to
    255 values. Raises ContractError if the dataset has no masks or is damaged.
    """
    dataset = load_dataset(folder)
    if not dataset.schema.has_role("mask"):
        raise ContractError(f"{folder} has records of kind {dataset.schema.kind} without masks; shard with masks first")
    if split not in dataset.splits:
        raise ContractError(f"{folder} has no split '{split}'; it has {', '.join(dataset.splits)}")
    check_files(folder, dataset, split, full=False)
    image, mask = (dataset.schema.column(role) for role in ("image", "mask"))
    rows = ds.MindDataset(
        [str(folder / shard.name) for shard in dataset.splits[split].shards],
        [image, mask],
        num_parallel_workers=1,
        shuffle=Shuffle.GLOBAL if train else False,
        num_shards=1,
        shard_id=0,
    )
    side = round(size * _MARGIN) if train else size
    resized = [vision.Decode(), vision.Resize((side, side))]
    rows = rows.map(resized, [image], num_parallel_workers=workers)
    # Decode returns three equal channels for a grey PNG, of which RGB to grey returns the value.
    values = [
        vision.Decode(),
        vision.ConvertColor(ConvertMode.COLOR_RGB2GRAY),
        vision.Resize((side, side), Inter.NEAREST),
    ]
    rows = rows.map(values, [mask], num_parallel_workers=workers)
    if train:
        together = [vision.RandomCrop((size, size)), vision.RandomHorizontalFlip()]
        rows = rows.map(together, [image, mask], num_parallel_workers=workers)
    rows = rows.map(normalise(dataset), [image], num_parallel_workers=workers)
    rows = rows.map(transforms.TypeCast(dtype.int32), [mask], num_parallel_workers=1)
    return rows.rename([image, mask], ["image", "mask"]).batch(batch_size, drop_remainder=train)
