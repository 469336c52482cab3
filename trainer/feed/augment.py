"""RandAugment and TrivialAugment, composed of MindSpore's C++ operators on uint8 HWC.

MindSpore's operators of these names shift by pixels instead of shares of the side: RandAugment with its defaults moves
18 to 24 % of the images out of view, TrivialAugmentWide 13 % (measured on 2.10). AutoAugment does not shift.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Transforms = list[Any]  # operators of mindspore.dataset
Operation = Callable[[float], Any]  # strength -> operator

GREY = (124, 116, 104)  # fills the area that a rotation or shift uncovers
LEVELS = 30  # strengths above 0


@dataclass(frozen=True)
class FullStrength:
    """The operations at full strength: shear as a tangent, shift as a share of the side, rotation in degrees, change of
    colour as a factor added to 1, bits removed per channel.
    """

    shear: float
    shift: float
    angle: float
    colour: float
    bits: int


def randaugment() -> Transforms:
    """Return two random operations out of fourteen, each at strength 9 of 30 (Cubuk et al. 2020)."""
    from mindspore.dataset.transforms import RandomChoice

    operations = _operations(FullStrength(0.3, 150 / 331, 30.0, 0.9, 4))
    once = [RandomChoice(_both(operation, 9 / LEVELS)) for operation in operations]
    return [RandomChoice([*once, *_fixed()]), RandomChoice([*once, *_fixed()])]


def trivial() -> Transforms:
    """Return one random operation out of fourteen at a random strength (Mueller and Hutter 2021, wide space)."""
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
    """Return functions of a strength from -1 to 1; operations without direction ignore its sign."""
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
