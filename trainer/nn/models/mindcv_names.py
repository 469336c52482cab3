"""MindCV's weights in terms of the built-in models', so that --init takes its published checkpoints.

The names are those of mindcv 0.3 (models/resnet.py, mobilenetv3.py, convnext.py), which is not imported. Its models are
others at some image sizes, see `agreeing_size`. Outputs were compared with mindcv 0.3 on MindSpore 2.10: those of the
ResNets are equal, of MobileNetV3 within 1e-5, of ConvNeXt within 2e-4, since GELU is approximated by tanh there.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

Rename = Callable[[str], str]
MINDCV_NAMES = {"mobilenet_v3": "mobilenet_v3_large_100"}  # where MindCV names the model otherwise
OUR_EPSILON, THEIR_EPSILON = 1e-3, 1e-5  # of the norms of MobileNetV3: as published, and MindSpore's default


def from_mindcv(model: str, names: Iterable[str]) -> dict[str, str]:
    """The built-in model's name for each of the names in a checkpoint of MindCV's `model`, by MindCV's name.

    Empty when the model has no counterpart there, or the names are not MindCV's. A name that is not known stays.
    """
    given = list(names)
    for prefix, (mark, family) in FAMILIES.items():
        if model.startswith(prefix) and any(name.startswith(mark) for name in given):
            rename = family(given)
            return {name: rename(name) for name in given}
    return {}


def agreeing_size(model: str, image_size: int) -> int:
    """The size in pixels from `image_size` on at which MindCV's model and the built-in one compute the same.

    Where features have an even side, MindCV's ResNets pad on one side only before their maximum pooling, and so does
    its MobileNetV3 in the four blocks that halve. Its ConvNeXt pads images that patches of 4 pixels, halved three
    times, do not cover.
    """
    agrees: Callable[[int], bool] = lambda size: True  # noqa: E731
    if model.startswith("resnet"):
        agrees = lambda size: (size + 1) // 2 % 2 == 1  # noqa: E731
    elif model.startswith("mobilenet_v3"):
        agrees = lambda size: (size + 1) // 2 % 16 == 1  # noqa: E731
    elif model.startswith("convnext"):
        agrees = lambda size: size % 32 == 0  # noqa: E731
    return next(size for size in range(image_size, image_size + 33) if agrees(size))


def fold_epsilon(model: str, weights: dict[str, Any]) -> None:
    """Make up, in `weights` under the built-in names, for MindCV's smaller epsilon in the norms of MobileNetV3.

    A norm divides by sqrt(variance + epsilon), so its gamma takes the quotient. Parameters are changed in place.
    """
    if not model.startswith("mobilenet_v3"):
        return
    from mindspore import Tensor

    for name, gamma in weights.items():
        variance = weights.get(name.removesuffix("gamma") + "moving_variance") if name.endswith(".gamma") else None
        if variance is not None:
            spread = variance.asnumpy()
            gamma.set_data(Tensor(gamma.asnumpy() * ((spread + OUR_EPSILON) / (spread + THEIR_EPSILON)) ** 0.5))


def _resnet(names: list[str]) -> Rename:
    """Blocks are counted over all stages here; a convolution, its norm and its ReLU are three cells in a row."""
    place = _places(r"layer(\d)\.(\d+)\.", names)

    def rename(name: str) -> str:
        if found := re.fullmatch(r"layer(\d)\.(\d+)\.(conv|bn)(\d)\.(\w+)", name):
            block = place[int(found[1]), int(found[2])]
            return f"stages.{block}.convolutions.{3 * (int(found[4]) - 1) + (found[3] == 'bn')}.{found[5]}"
        if found := re.fullmatch(r"layer(\d)\.(\d+)\.down_sample\.(.+)", name):
            return f"stages.{place[int(found[1]), int(found[2])]}.shortcut.{found[3]}"
        return _first_match(name, ((r"conv1\.", "stem.0."), (r"bn1\.", "stem.1."), (r"classifier\.", "head.")))

    return rename


def _mobilenet(names: list[str]) -> Rename:
    """Theirs is one list: stem, 15 blocks from number 3 on, last convolution and its norm."""

    def rename(name: str) -> str:
        if found := re.fullmatch(r"features\.(\d+)\.layers\.(.+)", name):
            inner = found[2].replace("conv_reduce", "weigh.0").replace("conv_expand", "weigh.2")
            return f"stages.{int(found[1]) - 3}.layers.{inner}"
        rules = [(r"features\.0\.", "stem.0."), (r"features\.1\.", "stem.1.")]
        rules += [(r"features\.18\.", "features.0."), (r"features\.19\.", "features.1.")]
        return _first_match(name, [*rules, (r"classifier\.0\.", "hidden.0."), (r"classifier\.3\.", "head.")])

    return rename


def _convnext(names: list[str]) -> Rename:
    """Theirs alternates stages of blocks and pairs of norm and halving convolution; here all are one list of cells."""
    place = _places(r"feature\.([1-9])\.(\d+)\.", names)
    cells = {"gamma_": "gamma", "dwconv": "filter", "pwconv1": "widen", "pwconv2": "narrow"}

    def rename(name: str) -> str:
        if found := re.fullmatch(r"feature\.([1-9])\.(\d+)\.(\w+)(.*)", name):
            stage, cell = int(found[1]), found[3]
            inner = f"norm.{cell}" if stage % 2 == 0 and cell in ("gamma", "beta") else cells.get(cell, cell)
            return f"stages.{place[stage, int(found[2])]}.{inner}{found[4]}"
        return _first_match(
            name, ((r"feature\.0\.0\.", "stem.0."), (r"feature\.0\.1\.", "stem.1.norm."), (r"classifier\.", "head."))
        )

    return rename


def _places(pattern: str, names: list[str]) -> dict[tuple[int, int], int]:
    """The number of each (stage, block) when all are counted through."""
    blocks = {(int(found[1]), int(found[2])) for name in names if (found := re.match(pattern, name))}
    return {block: number for number, block in enumerate(sorted(blocks))}


def _first_match(name: str, rules: Iterable[tuple[str, str]]) -> str:
    for pattern, ours in rules:
        if re.match(pattern, name):
            return re.sub(pattern, ours, name, count=1)
    return name


# Prefix of the model's name -> a prefix that only MindCV's names have, and the renaming for a list of names.
FAMILIES: dict[str, tuple[str, Callable[[list[str]], Rename]]] = {
    "resnet": ("layer1.", _resnet),
    "mobilenet_v3": ("features.3.layers.", _mobilenet),
    "convnext_tiny": ("feature.0.", _convnext),
}
