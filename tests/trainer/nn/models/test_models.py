import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from mindspore import Tensor

from trainer.device.context import InEffect
from trainer.errors import TrainerError
from trainer.nn.models import MODELS, check_model_name, find_factory
from trainer.nn.network import build_network

pytestmark = pytest.mark.slow

OWN = """
from mindspore import nn

class Flat(nn.Cell):
    def __init__(self, outputs):
        super().__init__()
        self.head = nn.Dense(3, outputs)
    def construct(self, images):
        return self.head(images.mean((2, 3)))

def right(num_classes): return Flat(num_classes)
def sized(num_classes, image_size):
    net = Flat(num_classes)
    net.side = image_size
    return net
def wide(num_classes): return Flat(num_classes + 1)
def features(num_classes): return nn.ReLU()
def no_cell(num_classes): return "net"
def no_classes(): return Flat(3)
value = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "ownnets.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "ownnets", raising=False)
    return tmp_path


# As torchvision and timm count them, at 1000 classes and 224 pixels.
PUBLISHED = {
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "mobilenet_v3": 5_483_032,
    "convnext_tiny": 28_589_128,
    "vit_small": 22_050_664,
}


@pytest.fixture
def unfilled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters of the right shape, filled with zeros: drawing 200 million numbers would take a minute."""
    from mindspore.common import initializer

    monkeypatch.setattr(initializer.Initializer, "__call__", lambda self, array: array.fill(0))


def test_every_model_except_tiny_has_a_published_figure() -> None:
    assert PUBLISHED.keys() == MODELS.keys() - {"tiny"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_models_have_the_published_number_of_parameters(
    name: str, tmp_path: Path, cpu: InEffect, unfilled: None
) -> None:
    network = build_network(name, tmp_path, 1000, 224, cpu)
    assert sum(parameter.size for parameter in network.trainable_params()) == PUBLISHED[name]
    names = [parameter.name for parameter in network.get_parameters()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "side"),
    [
        ("tiny", 16),
        ("tiny", 96),
        ("resnet18", 64),
        ("resnet34", 32),
        ("resnet50", 32),
        ("resnet101", 32),
        ("mobilenet_v3", 32),
        ("convnext_tiny", 36),
        ("vit_small", 32),
    ],
)
def test_models_return_one_logit_per_class(name: str, side: int, tmp_path: Path, cpu: InEffect, unfilled: None) -> None:
    import mindspore

    network = build_network(name, tmp_path, 7, side, cpu).set_train(False)
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    logits = network(Tensor(np.zeros((2, 3, side, side), np.float32)))
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    assert logits.shape == (2, 7)
    assert np.isfinite(logits.asnumpy()).all()


def test_positions_of_a_transformer_are_those_of_the_runs_image_size(
    tmp_path: Path, cpu: InEffect, unfilled: None
) -> None:
    assert build_network("vit_small", tmp_path, 2, 64, cpu).positions.shape == (1, 17, 384)
    with pytest.raises(TrainerError, match="patches of 16 pixels, which do not cover 100; use --image-size 96"):
        build_network("vit_small", tmp_path, 2, 100, cpu)


def test_missing_mindcv_is_reported_with_the_pip_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mindcv", None)
    with pytest.raises(TrainerError, match="'mindcv:resnet50' needs the package mindcv: pip install mindcv"):
        find_factory("mindcv:resnet50", tmp_path)


def test_model_of_mindcv_is_made_by_name(own: Path, cpu: InEffect, monkeypatch: pytest.MonkeyPatch) -> None:
    made = SimpleNamespace(
        list_models=lambda: ["flat_net", "flat_other"],
        create_model=lambda name, num_classes: find_factory("ownnets:right", own)(num_classes),
    )
    monkeypatch.setitem(sys.modules, "mindcv", made)
    assert build_network("mindcv:flat_net", own, 3, 32, cpu).head.out_channels == 3
    with pytest.raises(TrainerError, match="no model 'flat_nett'; did you mean 'flat_net'"):
        build_network("mindcv:flat_nett", own, 3, 32, cpu)


def test_own_factory_receives_the_image_size_if_it_has_that_parameter(own: Path, cpu: InEffect) -> None:
    assert build_network("ownnets:sized", own, 3, 48, cpu).side == 48


@pytest.mark.parametrize("name", ["resnet", "a:", ":b", "a:b c", "a.b"])
def test_unknown_model_is_rejected(name: str) -> None:
    with pytest.raises(TrainerError, match="unknown model"):
        check_model_name(name)


def test_own_model_is_found_in_the_working_directory_and_tried(own: Path, cpu: InEffect) -> None:
    assert build_network("ownnets:right", own, 3, 32, cpu).head.out_channels == 3


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("ownnets:wide", r"returns shape \(2, 4\) for two images, expected \(2, 3\)"),
        ("ownnets:features", r"returns shape \(2, 3, 32, 32\)"),
        ("ownnets:no_cell", "returned a str"),
        ("ownnets:no_classes", "cannot be called as factory"),
        ("ownnets:missing", "has no function 'missing'"),
        ("ownnets:value", "has no function 'value'"),
        ("nonets:right", "no module 'nonets'"),
    ],
)
def test_own_model_with_wrong_outputs_is_rejected(own: Path, cpu: InEffect, name: str, sentence: str) -> None:
    with pytest.raises(TrainerError, match=sentence):
        build_network(name, own, 3, 32, cpu)


def test_missing_import_inside_an_own_model_keeps_its_traceback(own: Path, cpu: InEffect) -> None:
    (own / "ownnets.py").write_text("import nothing_like_it")
    with pytest.raises(ModuleNotFoundError, match="nothing_like_it"):
        build_network("ownnets:right", own, 3, 32, cpu)
