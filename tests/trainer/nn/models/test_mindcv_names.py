"""MindCV's checkpoints as --init: by names written out here, and against mindcv itself where it is installed."""

from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Parameter, Tensor

from trainer.device.context import InEffect
from trainer.errors import TrainerError
from trainer.nn.models import find_factory
from trainer.nn.models.mindcv_names import OUR_EPSILON, THEIR_EPSILON, agreeing_size, fold_epsilon, from_mindcv
from trainer.training.finetune import load_init

pytestmark = pytest.mark.slow

NORM = ("moving_mean", "moving_variance", "gamma", "beta")
DENSE = ("weight", "bias")


def within(prefix: str, names: tuple[str, ...]) -> list[str]:
    return [f"{prefix}.{name}" for name in names]


def resnet18_names() -> list[str]:
    names = ["conv1.weight", *within("bn1", NORM)]
    for layer in range(1, 5):
        for block in range(2):
            for number in (1, 2):
                names += [
                    f"layer{layer}.{block}.conv{number}.weight",
                    *within(f"layer{layer}.{block}.bn{number}", NORM),
                ]
            if layer > 1 and block == 0:
                names += [f"layer{layer}.0.down_sample.0.weight", *within(f"layer{layer}.0.down_sample.1", NORM)]
    return names + within("classifier", DENSE)


def mobilenet_names() -> list[str]:
    names = ["features.0.weight", *within("features.1", NORM), "features.18.weight", *within("features.19", NORM)]
    squeezed = {6, 7, 8, 13, 14, 15, 16, 17}
    for number in range(3, 18):
        block = f"features.{number}.layers"
        convolutions = [0, 3] if number == 3 else [0, 3, 7 if number in squeezed else 6]
        for place in convolutions:
            names += [f"{block}.{place}.weight", *within(f"{block}.{place + 1}", NORM)]
        if number in squeezed:
            names += within(f"{block}.6.conv_reduce", DENSE) + within(f"{block}.6.conv_expand", DENSE)
    return names + within("classifier.0", DENSE) + within("classifier.3", DENSE)


def convnext_names() -> list[str]:
    names = within("feature.0.0", DENSE) + within("feature.0.1", ("gamma", "beta"))
    for stage, depth in ((1, 3), (3, 3), (5, 9), (7, 3)):
        for block in (f"feature.{stage}.{number}" for number in range(depth)):
            names += [f"{block}.gamma_", *within(f"{block}.dwconv", DENSE), *within(f"{block}.norm", ("gamma", "beta"))]
            names += within(f"{block}.pwconv1", DENSE) + within(f"{block}.pwconv2", DENSE)
        if stage < 7:
            names += within(f"feature.{stage + 1}.0", ("gamma", "beta")) + within(f"feature.{stage + 1}.1", DENSE)
    return names + within("norm", ("gamma", "beta")) + within("classifier", DENSE)


def build(model: str, classes: int = 10) -> Any:
    network = find_factory(model, Path())(num_classes=classes)
    return network.set_train(False)


@pytest.mark.parametrize(
    ("model", "names"),
    [("resnet18", resnet18_names()), ("mobilenet_v3", mobilenet_names()), ("convnext_tiny", convnext_names())],
)
def test_every_mindcv_name_maps_to_another_name(
    model: str, names: list[str], cpu: InEffect, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed = from_mindcv(model, names)
    assert list(renamed) == names
    assert sorted(renamed.values()) == sorted(parameter.name for parameter in build(model).get_parameters())


def test_unknown_names_are_not_renamed() -> None:
    assert from_mindcv("tiny", resnet18_names()) == {}
    assert from_mindcv("vit_small", ["blocks.0.attn.qkv.weight"]) == {}
    assert from_mindcv("resnet18", ["stem.0.weight", "head.bias"]) == {}
    assert from_mindcv("resnet18", ["layer1.0.conv1.weight", "extra"])["extra"] == "extra"


def test_mindcv_checkpoint_is_loaded_and_another_size_or_model_rejected(cpu: InEffect, tmp_path: Path) -> None:
    old, new = build("resnet18"), build("resnet18")
    ours = {parameter.name: parameter for parameter in old.get_parameters()}
    theirs = {name: ours[own] for name, own in from_mindcv("resnet18", resnet18_names()).items()}
    path = tmp_path / "resnet18-1e65cd21.ckpt"
    mindspore.save_checkpoint([{"name": name, "data": weight} for name, weight in theirs.items()], str(path))
    with pytest.raises(TrainerError, match=r"pads images of 64 pixels differently .* use --image-size 65, where"):
        load_init(new, path, 10, "resnet18", 64)
    assert load_init(new, path, 10, "resnet18", 65) == f"init: all 102 weights from {path}, renamed from MindCV"
    for own in new.get_parameters():
        np.testing.assert_array_equal(own.asnumpy(), ours[own.name].asnumpy())
    assert "head.weight, head.bias not loaded: the file has 10 classes" in load_init(
        build("resnet18", 3), path, 3, "resnet18", 65
    )


def test_sizes_at_which_mindcv_models_agree() -> None:
    assert [agreeing_size("resnet50", size) for size in (64, 65, 66, 67, 224)] == [65, 65, 66, 69, 225]
    assert [agreeing_size("mobilenet_v3", size) for size in (96, 97, 98, 99, 224)] == [97, 97, 98, 129, 225]
    assert [agreeing_size("convnext_tiny", size) for size in (64, 65, 224)] == [64, 96, 224]


def test_smaller_epsilon_is_folded_into_gamma() -> None:
    weights = {
        "bn.gamma": Parameter(Tensor([2.0, 0.5])),
        "bn.moving_variance": Parameter(Tensor([1e-3, 4.0])),
        "gamma": Parameter(Tensor([7.0])),
    }
    fold_epsilon("resnet18", weights)
    assert weights["bn.gamma"].asnumpy().tolist() == [2.0, 0.5]
    fold_epsilon("mobilenet_v3", weights)
    ours = weights["bn.gamma"].asnumpy() / np.sqrt(np.array([1e-3, 4.0]) + OUR_EPSILON)
    np.testing.assert_allclose(ours, np.array([2.0, 0.5]) / np.sqrt(np.array([1e-3, 4.0]) + THEIR_EPSILON), rtol=1e-6)
    assert weights["gamma"].asnumpy().tolist() == [7.0]


@pytest.mark.parametrize(
    ("model", "theirs", "side"),
    [
        ("resnet18", "resnet18", 65),
        ("resnet50", "resnet50", 66),
        ("mobilenet_v3", "mobilenet_v3_large_100", 97),
        ("convnext_tiny", "convnext_tiny", 64),
    ],
)
def test_outputs_equal_those_of_the_mindcv_model(
    model: str, theirs: str, side: int, cpu: InEffect, tmp_path: Path
) -> None:
    mindcv = pytest.importorskip("mindcv")
    network, draw = mindcv.create_model(theirs, num_classes=10), np.random.default_rng(1)
    for parameter in network.get_parameters():  # as if trained: no statistics are as they were initialised
        if parameter.name.endswith("moving_variance"):
            parameter.set_data(Tensor(draw.uniform(0.3, 2, parameter.shape).astype(np.float32)))
        elif parameter.name.endswith(("moving_mean", "beta", "bias")):
            parameter.set_data(Tensor(draw.normal(0, 0.1, parameter.shape).astype(np.float32)))
    mindspore.save_checkpoint(network.set_train(False), str(tmp_path / "theirs.ckpt"))
    own = build(model)
    load_init(own, tmp_path / "theirs.ckpt", 10, model, side)
    images = Tensor(draw.normal(size=(2, 3, side, side)).astype(np.float32))
    # MindCV's ConvNeXt approximates GELU by tanh.
    np.testing.assert_allclose(own(images).asnumpy(), network(images).asnumpy(), rtol=1e-5, atol=3e-4)
