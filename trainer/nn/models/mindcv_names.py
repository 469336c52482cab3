"""Map MindCV's parameter names to names of the built-in models, so that --init accepts MindCV's checkpoints.

The names are from mindcv 0.3 (models/resnet.py, mobilenetv3.py, convnext.py); the package is not imported. MindCV's
models differ at some image sizes, see `agreeing_size`. Outputs were compared with mindcv 0.3 on MindSpore 2.10. ResNet
outputs are equal, MobileNetV3 outputs agree within 1e-5, and ConvNeXt outputs within 2e-4, because MindCV approximates
GELU by tanh.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

Rename = Callable[[str], str]
MINDCV_NAMES = {"mobilenet_v3": "mobilenet_v3_large_100"}  # models with another name in MindCV
OUR_EPSILON, THEIR_EPSILON = 1e-3, 1e-5  # epsilon of MobileNetV3's norms: published; MindSpore's default


def from_mindcv(model: str, names: Iterable[str]) -> dict[str, str]:
    """Return a map from parameter names in a MindCV checkpoint of `model` to names in the built-in model.

    The map is empty if MindCV has no such model or if the names are not MindCV's. An unknown name is mapped to itself.
    """
    given = list(names)
    for prefix, (mark, family) in FAMILIES.items():
        if model.startswith(prefix) and any(name.startswith(mark) for name in given):
            rename = family(given)
            return {name: rename(name) for name in given}
    return {}


def agreeing_size(model: str, image_size: int) -> int:
    """Return the smallest size >= `image_size`, in pixels, at which MindCV's model equals the built-in model.

    MindCV pads only one side of features with an even side: before max pooling in ResNets, and in the four downsampling
    blocks of MobileNetV3. MindCV's ConvNeXt pads images whose side is not a multiple of 32.
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
    """Correct `weights` in place for MindCV's smaller epsilon in the norms of MobileNetV3.

    `weights` maps names in the built-in model to parameters. A norm divides by sqrt(variance + epsilon), so gamma is
    multiplied by the ratio of the two roots.
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
    """Return the rename function for ResNets; the built-in model numbers blocks over all stages."""
    numbers = _block_numbers(r"layer(\d)\.(\d+)\.", names)

    def rename(name: str) -> str:
        if match := re.fullmatch(r"layer(\d)\.(\d+)\.(conv|bn)(\d)\.(\w+)", name):
            block = numbers[int(match[1]), int(match[2])]
            return f"stages.{block}.convolutions.{3 * (int(match[4]) - 1) + (match[3] == 'bn')}.{match[5]}"
        if match := re.fullmatch(r"layer(\d)\.(\d+)\.down_sample\.(.+)", name):
            return f"stages.{numbers[int(match[1]), int(match[2])]}.shortcut.{match[3]}"
        return _first_match(name, ((r"conv1\.", "stem.0."), (r"bn1\.", "stem.1."), (r"classifier\.", "head.")))

    return rename


def _mobilenet(names: list[str]) -> Rename:
    """Return the rename function for MobileNetV3; MindCV has blocks and last convolution in one list of cells."""

    def rename(name: str) -> str:
        if match := re.fullmatch(r"features\.(\d+)\.layers\.(.+)", name):
            inner = match[2].replace("conv_reduce", "weigh.0").replace("conv_expand", "weigh.2")
            return f"stages.{int(match[1]) - 3}.layers.{inner}"
        rules = [(r"features\.0\.", "stem.0."), (r"features\.1\.", "stem.1.")]
        rules += [(r"features\.18\.", "features.0."), (r"features\.19\.", "features.1.")]
        return _first_match(name, [*rules, (r"classifier\.0\.", "hidden.0."), (r"classifier\.3\.", "head.")])

    return rename


def _convnext(names: list[str]) -> Rename:
    """Return the rename function for ConvNeXt; in MindCV, stages have odd and downsampling cells even numbers."""
    numbers = _block_numbers(r"feature\.([1-9])\.(\d+)\.", names)
    cells = {"gamma_": "gamma", "dwconv": "filter", "pwconv1": "widen", "pwconv2": "narrow"}

    def rename(name: str) -> str:
        if match := re.fullmatch(r"feature\.([1-9])\.(\d+)\.(\w+)(.*)", name):
            stage, cell = int(match[1]), match[3]
            inner = f"norm.{cell}" if stage % 2 == 0 and cell in ("gamma", "beta") else cells.get(cell, cell)
            return f"stages.{numbers[stage, int(match[2])]}.{inner}{match[4]}"
        return _first_match(
            name, ((r"feature\.0\.0\.", "stem.0."), (r"feature\.0\.1\.", "stem.1.norm."), (r"classifier\.", "head."))
        )

    return rename


def _block_numbers(pattern: str, names: list[str]) -> dict[tuple[int, int], int]:
    """Return the number of each (stage, block), counted over all stages."""
    blocks = {(int(match[1]), int(match[2])) for name in names if (match := re.match(pattern, name))}
    return {block: number for number, block in enumerate(sorted(blocks))}


def _first_match(name: str, rules: Iterable[tuple[str, str]]) -> str:
    for pattern, ours in rules:
        if re.match(pattern, name):
            return re.sub(pattern, ours, name, count=1)
    return name


# prefix of the model's name -> (a prefix that only MindCV's names have, function from names to a renaming)
FAMILIES: dict[str, tuple[str, Callable[[list[str]], Rename]]] = {
    "resnet": ("layer1.", _resnet),
    "mobilenet_v3": ("features.3.layers.", _mobilenet),
    "convnext_tiny": ("feature.0.", _convnext),
}
