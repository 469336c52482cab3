"""Named lists of image transforms, each in a form for training and one for evaluation that agree on size and scale.

All are C++ operators for one map, with RandomCropDecodeResize fused: four separate maps cost 1.25 times as much CPU,
Decode before RandomResizedCrop 1.4 times (measured on 2.10).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Rgb = tuple[float, float, float]

IMAGENET_MEAN: Rgb = (123.675, 116.28, 103.53)
IMAGENET_STD: Rgb = (58.395, 57.12, 57.375)


@dataclass(frozen=True)
class Recipe:
    """`train` and `evaluate` turn the side of the square output in pixels into transforms from bytes to uint8 HWC.

    `mean` and `std` on the scale 0..255 when the recipe fixes them; None takes those of the dataset.
    """

    image_size: int
    train: Callable[[int], list[Any]]
    evaluate: Callable[[int], list[Any]]
    mean: Rgb | None = None
    std: Rgb | None = None


def scaled(transforms: list[Any], mean: Rgb, std: Rgb) -> list[Any]:
    """Append what every recipe ends with: normalise channel by channel, and float32 CHW."""
    from mindspore.dataset import vision

    return [*transforms, vision.Normalize(mean=mean, std=std), vision.HWC2CHW()]


def _imagenet_train(size: int) -> list[Any]:
    from mindspore.dataset import vision

    crop = vision.RandomCropDecodeResize((size, size), scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3))
    return [crop, vision.RandomHorizontalFlip()]


def _imagenet_evaluate(size: int) -> list[Any]:
    from mindspore.dataset import vision

    return [vision.Decode(), vision.Resize(round(size * 256 / 224)), vision.CenterCrop((size, size))]


def _small_train(size: int) -> list[Any]:
    from mindspore.dataset import vision
    from mindspore.dataset.vision import Border

    # Shifts only, in the very geometry of evaluation: a random-resized crop keeps the aspect that evaluation squeezes,
    # and cost over ten points of accuracy on drawn shapes. No flip: small images are often digits, letters or signs.
    shift = vision.RandomCrop(size, padding=size // 8, padding_mode=Border.EDGE)
    return [*_plain(size), shift]


def _plain(size: int) -> list[Any]:
    from mindspore.dataset import vision

    return [vision.Decode(), vision.Resize((size, size))]


RECIPES = {
    "imagenet": Recipe(224, _imagenet_train, _imagenet_evaluate),
    "small": Recipe(64, _small_train, _plain),
    "none": Recipe(64, _plain, _plain),
}
