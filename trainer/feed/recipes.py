"""Recipes: image transforms for training and evaluation with the same output size and scale.

All transforms are C++ operators in one map, because four separate maps use 1.25 times the CPU time. Decode followed by
RandomResizedCrop uses 1.4 times the CPU time of the fused RandomCropDecodeResize (measured on 2.10). Mixup, cutmix
and erasing are in mixing.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.config import find_function, is_own
from trainer.errors import TrainerError, WrongUsage, nearest
from trainer.feed import augment
from trainer.feed.augment import Transforms

Rgb = tuple[float, float, float]

IMAGENET_MEAN: Rgb = (123.675, 116.28, 103.53)
IMAGENET_STD: Rgb = (58.395, 57.12, 57.375)
IMAGENET_CROP = 224 / 256  # side of the central crop, as a fraction of the shorter image side


@dataclass(frozen=True)
class Recipe:
    """Image transforms and default options of a recipe.

    `train` and `evaluate` take the output side in pixels and return transforms from encoded bytes to uint8 HWC.
    `image_size` is the default output side. `mean` and `std` are on the scale 0..255; None selects the statistics of
    the dataset. `mixup`, `cutmix` and `erasing` are defaults of the options with these names; 0 means off.
    """

    image_size: int
    train: Callable[[int], Transforms]
    evaluate: Callable[[int], Transforms]
    mean: Rgb | None = None
    std: Rgb | None = None
    mixup: float = 0.0
    cutmix: float = 0.0
    erasing: float = 0.0


def random_crop(size: int) -> Transforms:
    """Return a random crop (area 8 to 100 %, aspect ratio 3/4 to 4/3) to `size` pixels and a random horizontal flip."""
    from mindspore.dataset import vision

    crop = vision.RandomCropDecodeResize((size, size), scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3))
    return [crop, vision.RandomHorizontalFlip()]


def central_crop(size: int) -> Transforms:
    """Return a central crop to `size` pixels that covers 224/256 of the shorter image side."""
    from mindspore.dataset import vision

    return [vision.Decode(), vision.Resize(round(size / IMAGENET_CROP)), vision.CenterCrop((size, size))]


def _randaugment(size: int) -> Transforms:
    return [*random_crop(size), *augment.randaugment()]


def _autoaugment(size: int) -> Transforms:
    from mindspore.dataset import vision

    policy = vision.AutoAugmentPolicy.IMAGENET
    return [
        *random_crop(size),
        vision.AutoAugment(policy, interpolation=vision.Inter.BILINEAR, fill_value=augment.GREY),
    ]


def _trivial(size: int) -> Transforms:
    return [*random_crop(size), *augment.trivial()]


def _small_train(size: int) -> Transforms:
    from mindspore.dataset import vision
    from mindspore.dataset.vision import Border

    # Training only shifts images. A random-resized crop keeps the aspect ratio that evaluation changes; that crop lost
    # ten points of accuracy on drawn shapes. Images are not flipped: many small images are digits, letters or signs.
    shift = vision.RandomCrop(size, padding=size // 8, padding_mode=Border.EDGE)
    return [*squeezed(size), shift]


def squeezed(size: int) -> Transforms:
    """Return a resize of the whole image to a square of `size` pixels, regardless of the aspect ratio."""
    from mindspore.dataset import vision

    return [vision.Decode(), vision.Resize((size, size))]


RECIPES = {
    "imagenet": Recipe(224, random_crop, central_crop),
    "randaugment": Recipe(224, _randaugment, central_crop),
    "autoaugment": Recipe(224, _autoaugment, central_crop),
    "trivial": Recipe(224, _trivial, central_crop),
    "small": Recipe(64, _small_train, squeezed),
    "none": Recipe(64, squeezed, squeezed),
}


def find_recipe(name: str, folder: Path) -> Recipe:
    """Return the built-in recipe `name`, or the result of the user's `module:function`.

    The module may be in `folder` or installed. Raises TrainerError if the recipe is unknown or invalid.
    """
    if name in RECIPES:
        return RECIPES[name]
    if not is_own(name):
        raise WrongUsage(f"unknown recipe '{name}'; {nearest(name, RECIPES)}, or your own as module:function")
    function = find_function("recipe", name, folder)
    try:
        recipe = function()
    except TypeError as error:
        raise TrainerError(f"recipe '{name}' cannot be called without arguments: {error}") from error
    _check_recipe(name, recipe)
    return recipe  # type: ignore[no-any-return]


def _check_recipe(name: str, recipe: Any) -> None:
    if not isinstance(recipe, Recipe):
        raise TrainerError(
            f"recipe '{name}' returned a {type(recipe).__name__}, expected a trainer.feed.recipes.Recipe"
        )
    if not isinstance(recipe.image_size, int) or recipe.image_size < 1:
        raise TrainerError(f"recipe '{name}': image_size is {recipe.image_size!r}, expected a number of pixels")
    if (recipe.mean is None) != (recipe.std is None):
        raise TrainerError(f"recipe '{name}' sets only one of mean and std; set both, or neither to use the dataset's")
    for label, values in (("mean", recipe.mean), ("std", recipe.std)):
        if values is not None and (len(values) != 3 or max(values) <= 1):
            raise TrainerError(
                f"recipe '{name}': {label} is {values}, expected three numbers (red, green, blue) on the scale 0..255"
            )


@dataclass(frozen=True)
class Pixels:
    """Input format of the model: image side in pixels, mean and std per channel on the scale 0..255."""

    size: int
    mean: Rgb
    std: Rgb
