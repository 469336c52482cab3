"""The pipeline after a recipe's transforms: erasing, scale, and what mixes the images of a batch.

Erasing is C++ as the recipes are: vision.RandomErasing runs in Python, so squares of CutOut take its place. Mixing is
NumPy on whole batches: MixUpBatch ends the run with an error once in 200 batches at alpha 0.2 and in 20 at 0.1,
CutMixBatch draws the same whatever its alpha, and both cost twice as much (1.0 and 1.3 ms a 224-pixel image against
0.5 and 0.0; measured on 2.10).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.feed.recipes import Recipe, Rgb

Pixels = NDArray[np.float32]

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


@dataclass(frozen=True)
class Mixer:
    """The function that batches rows and mixes each with its mirror in the batch, which the shuffling made a stranger.

    What is drawn depends on seed, epoch and batch alone, so a resumed run mixes as an undisturbed one.
    """

    classes: int
    mixup: float
    cutmix: float
    seed: int

    def __call__(self, images: list[Pixels], labels: list[Any], info: Any) -> tuple[list[Pixels], list[Pixels]]:
        """In the form of MindSpore's per_batch_map: rows of a batch to rows of a batch."""
        draw = np.random.default_rng((self.seed, info.get_epoch_num(), info.get_batch_num()))
        mixed = self.mix(np.stack(images), np.array(labels).reshape(-1), draw)
        return list(mixed[0]), list(mixed[1])

    def mix(self, images: Pixels, labels: NDArray[Any], draw: np.random.Generator) -> tuple[Pixels, Pixels]:
        """Mix float32 (N, C, H, W), which it may change, and int (N,), which become float32 (N, classes)."""
        cut = bool(self.cutmix) and (not self.mixup or draw.random() < 0.5)
        alpha = self.cutmix if cut else self.mixup
        share = draw.beta(alpha, alpha)
        if cut:
            share = _swap_box(images, share, draw)
        else:
            images = images * np.float32(share) + images[::-1] * np.float32(1 - share)
        hot = np.eye(self.classes, dtype=np.float32)[labels]
        return images, hot * np.float32(share) + hot[::-1] * np.float32(1 - share)


def _swap_box(images: Pixels, share: float, draw: np.random.Generator) -> float:
    """Put a box of each image's mirror in its place; returns the share of an image that stayed its own."""
    height, width = images.shape[2:]
    side = (1 - share) ** 0.5
    middle = draw.random(2)
    top, bottom = (int(np.clip(round((middle[0] + half * side) * height), 0, height)) for half in (-0.5, 0.5))
    left, right = (int(np.clip(round((middle[1] + half * side) * width), 0, width)) for half in (-0.5, 0.5))
    images[:, :, top:bottom, left:right] = images[::-1, :, top:bottom, left:right].copy()
    return 1 - (bottom - top) * (right - left) / (height * width)
