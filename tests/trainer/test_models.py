from pathlib import Path

import numpy as np
import pytest
from mindspore import Tensor

from trainer.device import InEffect
from trainer.errors import TrainerError
from trainer.models import MODELS, check_model_name, find_factory
from trainer.network import build_network

OWN = """
from mindspore import nn

class Flat(nn.Cell):
    def __init__(self, outputs):
        super().__init__()
        self.head = nn.Dense(3, outputs)
    def construct(self, images):
        return self.head(images.mean((2, 3)))

def right(num_classes): return Flat(num_classes)
def wide(num_classes): return Flat(num_classes + 1)
def features(num_classes): return nn.ReLU()
def no_cell(num_classes): return "net"
def no_classes(): return Flat(3)
value = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import sys

    (tmp_path / "ownnets.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "ownnets", raising=False)
    return tmp_path


@pytest.mark.parametrize(("name", "count"), [("resnet18", 11_689_512), ("resnet50", 25_557_032)])
def test_resnets_have_the_published_number_of_parameters(name: str, count: int, tmp_path: Path, cpu: InEffect) -> None:
    network = find_factory(name, tmp_path)(num_classes=1000)
    assert sum(parameter.size for parameter in network.trainable_params()) == count


@pytest.mark.parametrize(("name", "side"), [("tiny", 16), ("tiny", 96), ("resnet18", 64), ("resnet50", 32)])
def test_models_give_one_logit_a_class(name: str, side: int, tmp_path: Path, cpu: InEffect) -> None:
    import mindspore

    network = build_network(name, tmp_path, 7, side, cpu).set_train(False)
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    logits = network(Tensor(np.zeros((2, 3, side, side), np.float32)))
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    assert logits.shape == (2, 7)
    assert np.isfinite(logits.asnumpy()).all()


def test_parameter_names_are_unique(tmp_path: Path, cpu: InEffect) -> None:
    for name in MODELS:
        names = [parameter.name for parameter in find_factory(name, tmp_path)(num_classes=2).get_parameters()]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["resnet", "a:", ":b", "a:b c", "a.b"])
def test_name_of_no_model_is_refused(name: str) -> None:
    with pytest.raises(TrainerError, match="unknown model"):
        check_model_name(name)


def test_own_model_is_found_beside_the_user_and_tried(own: Path, cpu: InEffect) -> None:
    assert build_network("ownnets:right", own, 3, 32, cpu).head.out_channels == 3


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("ownnets:wide", r"gives shape \(2, 4\) for two images, expected \(2, 3\)"),
        ("ownnets:features", r"gives shape \(2, 3, 32, 32\)"),
        ("ownnets:no_cell", "returned a str"),
        ("ownnets:no_classes", "cannot be called as factory"),
        ("ownnets:missing", "has no function 'missing'"),
        ("ownnets:value", "has no function 'value'"),
        ("nonets:right", "no module 'nonets'"),
    ],
)
def test_own_model_that_does_not_fit_is_refused(own: Path, cpu: InEffect, name: str, sentence: str) -> None:
    with pytest.raises(TrainerError, match=sentence):
        build_network(name, own, 3, 32, cpu)


def test_missing_import_inside_an_own_model_keeps_its_traceback(own: Path, cpu: InEffect) -> None:
    (own / "ownnets.py").write_text("import nothing_like_it")
    with pytest.raises(ModuleNotFoundError, match="nothing_like_it"):
        build_network("ownnets:right", own, 3, 32, cpu)
