"""RandAugment and TrivialAugment, put together from MindSpore's C++ operators on uint8 HWC.

Its own operators of these names shift by pixels where a share of the side is meant, so that RandAugment at its defaults
leaves nothing of 18 to 24 % of the images, TrivialAugmentWide of 13 % (measured on 2.10). AutoAugment does not shift.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

GREY = (124, 116, 104)  # what is put where an image was turned or shifted away
LEVELS = 30  # strengths above none


@dataclass(frozen=True)
class Strongest:
    """What each operation does at full strength: shear as a tangent, shift as a share of the side, turn in degrees,
    change of colour as a factor beside 1, bits taken from each channel.
    """

    shear: float
    shift: float
    turn: float
    colour: float
    bits: int


def randaugment() -> list[Any]:
    """Two operations drawn from fourteen, each at strength 9 of 30 (Cubuk et al. 2020)."""
    from mindspore.dataset.transforms import RandomChoice

    operations = _operations(Strongest(0.3, 150 / 331, 30.0, 0.9, 4))
    once = [RandomChoice(_both(operation, 9 / LEVELS)) for operation in operations]
    return [RandomChoice([*once, *_fixed()]), RandomChoice([*once, *_fixed()])]


def trivial() -> list[Any]:
    """One operation drawn from fourteen, at a strength drawn from all (Mueller and Hutter 2021, the wide space)."""
    from mindspore.dataset.transforms import RandomChoice

    operations = _operations(Strongest(0.99, 32 / 224, 135.0, 0.99, 6))
    strengths = [level / LEVELS for level in range(LEVELS + 1)]
    drawn = [RandomChoice([one for s in strengths for one in _both(operation, s)]) for operation in operations]
    return [RandomChoice([*drawn, *_fixed()])]


def _both(operation: Callable[[float], Any], strength: float) -> list[Any]:
    return [operation(strength), operation(-strength)]


def _fixed() -> list[Any]:
    from mindspore.dataset import vision

    nothing = vision.Posterize(8)
    return [nothing, vision.AutoContrast(), vision.Equalize()]


def _operations(most: Strongest) -> list[Callable[[float], Any]]:
    """Functions of a strength between -1 and 1; what has no direction takes it without its sign."""
    from mindspore.dataset import vision

    def move(turn: float = 0.0, x: float = 0.0, y: float = 0.0, lean: tuple[float, float] = (0.0, 0.0)) -> Any:
        return vision.Affine(turn, (x, y), 1.0, lean, vision.Inter.BILINEAR, GREY)

    def degrees(strength: float) -> float:
        return math.degrees(math.atan(most.shear * strength))

    return [
        lambda s: move(lean=(degrees(s), 0.0)),
        lambda s: move(lean=(0.0, degrees(s))),
        lambda s: move(x=most.shift * s),
        lambda s: move(y=most.shift * s),
        lambda s: move(turn=most.turn * s),
        lambda s: vision.AdjustBrightness(1 + most.colour * s),
        lambda s: vision.AdjustSaturation(1 + most.colour * s),
        lambda s: vision.AdjustContrast(1 + most.colour * s),
        lambda s: vision.AdjustSharpness(1 + most.colour * s),
        lambda s: vision.Posterize(8 - round(most.bits * abs(s))),
        lambda s: vision.Solarize((round(255 * (1 - abs(s))), 255)),
    ]
