"""The pipeline after a recipe's transforms: erasing, scale, batches, and what mixes the images of a batch.

All C++ operators. vision.RandomErasing runs in Python, at several times the cost of the rest, so squares of CutOut take
its place. MixUpBatch and CutMixBatch need batches and one-hot labels, so the labels become float32 (N, classes).
"""

from typing import Any

from trainer.recipes import Recipe, Rgb

ERASED_AREAS = (0.02, 0.05, 0.1, 0.2, 0.33)  # shares of an image, one of which is drawn; random erasing's own range


def scaled(transforms: list[Any], mean: Rgb, std: Rgb) -> list[Any]:
    """Append what every recipe ends with: normalise channel by channel, and float32 CHW."""
    from mindspore.dataset import vision

    return [*transforms, vision.Normalize(mean=mean, std=std), vision.HWC2CHW()]


def scaled_and_erased(transforms: list[Any], mean: Rgb, std: Rgb, size: int, probability: float) -> list[Any]:
    """As `scaled`; with this probability a square of 2 to 33 % of an image becomes the mean colour. 0 is off."""
    from mindspore.dataset import vision
    from mindspore.dataset.transforms import RandomApply, RandomChoice

    *rest, last = scaled(transforms, mean, std)
    if not probability:
        return [*rest, last]
    squares = [vision.CutOut(max(1, round(size * area**0.5))) for area in ERASED_AREAS]
    # Between Normalize and HWC2CHW, where the 0 that CutOut puts in is the mean colour.
    return [*rest, RandomApply([RandomChoice(squares)], probability), last]


def mixes(recipe: Recipe) -> bool:
    """Whether training batches carry soft labels."""
    return bool(recipe.mixup or recipe.cutmix)


def mixed(batches: Any, image: str, label: str, classes: int, recipe: Recipe) -> Any:
    """Batches of float32 (N, 3, S, S) and int32 (N,) with mixup, cutmix, or for each batch one of the two, by recipe.

    Labels become float32 (N, classes) whose rows sum to 1. With neither the batches stay as they are.
    """
    from mindspore.dataset import transforms, vision

    if not mixes(recipe):
        return batches
    ways: list[Any] = []
    if recipe.mixup:
        ways.append(vision.MixUpBatch(recipe.mixup))
    if recipe.cutmix:
        ways.append(vision.CutMixBatch(vision.ImageBatchFormat.NCHW, recipe.cutmix))
    batches = batches.map(transforms.OneHot(classes), input_columns=[label], num_parallel_workers=1)
    way = ways[0] if len(ways) == 1 else transforms.RandomChoice(ways)
    return batches.map(way, input_columns=[image, label], num_parallel_workers=1)
