"""RandAugment and TrivialAugment, built from MindSpore's C++ operators on uint8 HWC images.

MindSpore's own RandAugment and TrivialAugmentWide shift by pixels, not by a fraction of the image side. With default
arguments, RandAugment shifts 18 to 24 % of the images out of view and TrivialAugmentWide 13 % (measured on 2.10).
MindSpore's AutoAugment does not shift images.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Transforms = list[Any]  # operators of mindspore.dataset
Operation = Callable[[float], Any]  # strength -> operator

GREY = (124, 116, 104)  # fill colour of the area that a rotation or shift uncovers
LEVELS = 30  # number of strengths above 0


@dataclass(frozen=True)
class FullStrength:
    """Parameters of the operations at full strength.

    `shear` is the tangent of the shear angle, `shift` a fraction of the image side, `angle` a rotation in degrees.
    `colour` is the largest change of the brightness, saturation, contrast and sharpness factors. `bits` is the number
    of bits removed per channel.
    """

    shear: float
    shift: float
    angle: float
    colour: float
    bits: int


def randaugment() -> Transforms:
    """Return transforms that apply two random operations out of fourteen, at strength 9 of 30 (Cubuk et al. 2020)."""
    from mindspore.dataset.transforms import RandomChoice

    operations = _operations(FullStrength(0.3, 150 / 331, 30.0, 0.9, 4))
    once = [RandomChoice(_both(operation, 9 / LEVELS)) for operation in operations]
    return [RandomChoice([*once, *_fixed()]), RandomChoice([*once, *_fixed()])]


def trivial() -> Transforms:
    """Return a transform that applies one of 14 operations at random strength (Mueller and Hutter 2021, wide space)."""
    from mindspore.dataset.transforms import RandomChoice

    operations = _operations(FullStrength(0.99, 32 / 224, 135.0, 0.99, 6))
    strengths = [level / LEVELS for level in range(LEVELS + 1)]
    drawn = [RandomChoice([op for s in strengths for op in _both(operation, s)]) for operation in operations]
    return [RandomChoice([*drawn, *_fixed()])]


def _both(operation: Operation, strength: float) -> Transforms:
    return [operation(strength), operation(-strength)]


def _fixed() -> Transforms:
    from mindspore.dataset import vision

    nothing = vision.Posterize(8)
    return [nothing, vision.AutoContrast(), vision.Equalize()]


def _operations(full: FullStrength) -> list[Operation]:
    """Return functions that map a strength from -1 to 1 to an operator; undirected operations ignore its sign."""
    from mindspore.dataset import vision

    def affine(angle: float = 0.0, x: float = 0.0, y: float = 0.0, shear: tuple[float, float] = (0.0, 0.0)) -> Any:
        return vision.Affine(angle, (x, y), 1.0, shear, vision.Inter.BILINEAR, GREY)

    def degrees(strength: float) -> float:
        return math.degrees(math.atan(full.shear * strength))

    return [
        lambda s: affine(shear=(degrees(s), 0.0)),
        lambda s: affine(shear=(0.0, degrees(s))),
        lambda s: affine(x=full.shift * s),
        lambda s: affine(y=full.shift * s),
        lambda s: affine(angle=full.angle * s),
        lambda s: vision.AdjustBrightness(1 + full.colour * s),
        lambda s: vision.AdjustSaturation(1 + full.colour * s),
        lambda s: vision.AdjustContrast(1 + full.colour * s),
        lambda s: vision.AdjustSharpness(1 + full.colour * s),
        lambda s: vision.Posterize(8 - round(full.bits * abs(s))),
        lambda s: vision.Solarize((round(255 * (1 - abs(s))), 255)),
    ]
