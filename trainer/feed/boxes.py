"""Padded batches of images and boxes, to train detectors on records of kind detection.

MindSpore's operators for images with boxes crop, flip and resize both together. A box that a crop cuts away is gone,
with its label: the label is a further column of its box.
"""

from pathlib import Path
from typing import Any

import mindspore.dataset as ds
import numpy as np
from mindspore.dataset import Shuffle, vision
from numpy.typing import NDArray

from schemas.dataset import Dataset, load_dataset
from schemas.errors import ContractError
from trainer.feed.integrity import check_files
from trainer.feed.recipes import IMAGENET_MEAN, IMAGENET_STD

PADDING = -1  # label of an object that only fills the batch
_COLUMNS = ("boxes", "labels", "iscrowd", "difficult")
_WIDTH = 7  # of a box in the pipeline: left, top, width, height, label, iscrowd, difficult


def detection_batches(
    folder: Path,
    split: str,
    size: int,
    batch_size: int,
    train: bool = False,
    most_objects: int = 50,
    workers: int = 1,
) -> Any:
    """Return batches of the images and boxes of a split. Each image is resized to `size` x `size` pixels.

    The columns, for N images and M = `most_objects`:

        image      float32 (N, 3, size, size), normalised with the mean and standard deviation of the dataset
        boxes      float32 (N, M, 4): left, top, right, bottom in pixels of the resized image
        labels     int32 (N, M): class, or PADDING
        iscrowd    int32 (N, M)
        difficult  int32 (N, M)
        valid      bool (N, M): False for padding, and for objects without an area

    With `train`, rows are shuffled in each epoch, images are flipped and cropped at random, and rows that do not fill a
    batch are dropped. `mindspore.dataset.config.set_seed` makes both repeatable. Further objects of an image are left
    out. Raises ContractError if the dataset has no boxes or is damaged.
    """
    dataset = _dataset(folder, split)
    columns = [dataset.schema.column(role) for role in ("image", *_COLUMNS)]
    rows = ds.MindDataset(
        [str(folder / shard.name) for shard in dataset.splits[split].shards],
        columns,
        num_parallel_workers=1,
        shuffle=Shuffle.GLOBAL if train else False,
        num_shards=1,
        shard_id=0,
    )
    rows = rows.map(_joined, columns[1:], ["bbox"], num_parallel_workers=1)
    rows = rows.map(vision.Decode(), columns[:1], num_parallel_workers=workers)
    together = [vision.RandomHorizontalFlipWithBBox()] if train else []
    if train:
        together.append(vision.RandomResizedCropWithBBox((size, size), scale=(0.5, 1.0)))
    for operator in (*together, vision.ResizeWithBBox((size, size))):
        rows = rows.map(operator, [columns[0], "bbox"], num_parallel_workers=workers)
    rows = rows.map(normalise(dataset), columns[:1], num_parallel_workers=workers)
    rows = rows.map(_Padded(most_objects, size), ["bbox"], [*_COLUMNS, "valid"], num_parallel_workers=1)
    rows = rows.project([columns[0], *_COLUMNS, "valid"]).rename(columns[0], "image")
    return rows.batch(batch_size, drop_remainder=train)


def _dataset(folder: Path, split: str) -> Dataset:
    dataset = load_dataset(folder)
    if not dataset.schema.has_role("boxes"):
        raise ContractError(f"{folder} has records of kind {dataset.schema.kind} without boxes; shard with boxes first")
    if split not in dataset.splits:
        raise ContractError(f"{folder} has no split '{split}'; it has {', '.join(dataset.splits)}")
    check_files(folder, dataset, split, full=False)
    return dataset


def normalise(dataset: Dataset) -> list[Any]:
    """Return the operators from uint8 (H, W, 3) to float32 (3, H, W), with the statistics of the dataset."""
    mean, std = IMAGENET_MEAN, IMAGENET_STD
    if dataset.pixels is not None:
        mean, std = dataset.pixels.mean, dataset.pixels.std
    return [vision.Normalize(mean, [max(value, 1.0) for value in std]), vision.HWC2CHW()]


def _joined(
    boxes: NDArray[np.float32], labels: NDArray[np.int32], iscrowd: NDArray[np.int32], difficult: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Return the objects as MindSpore's operators take them: left, top, width, height, and any further columns."""
    joined = np.empty((len(boxes), _WIDTH), np.float32)
    joined[:, :2] = boxes[:, :2]
    joined[:, 2:4] = boxes[:, 2:] - boxes[:, :2]
    joined[:, 4:] = np.stack([labels, iscrowd, difficult], axis=1)
    return joined


class _Padded:
    """Makes arrays of `objects` rows of the objects that are left. The image has `size` x `size` pixels."""

    def __init__(self, objects: int, size: int) -> None:
        self._objects, self._size = objects, size

    def __call__(self, bbox: NDArray[np.float32]) -> tuple[NDArray[Any], ...]:
        found = bbox.reshape(-1, _WIDTH)
        found = found[found[:, 4] != PADDING][: self._objects]
        boxes = np.zeros((self._objects, 4), np.float32)
        rest = np.zeros((3, self._objects), np.int32)
        rest[0] = PADDING
        boxes[: len(found), :2] = found[:, :2]
        boxes[: len(found), 2:] = found[:, :2] + found[:, 2:4]
        np.clip(boxes, 0, self._size, out=boxes)
        rest[:, : len(found)] = found[:, 4:].T
        valid = (rest[0] != PADDING) & (boxes[:, 2:] > boxes[:, :2]).all(axis=1)
        return boxes, *rest, valid
