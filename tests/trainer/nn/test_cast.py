from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, nn

from trainer.config import RunConfig
from trainer.device.context import InEffect, pynative
from trainer.device.precision import decide_precision
from trainer.errors import TrainerError
from trainer.nn.cast import mixed

pytestmark = pytest.mark.slow


class Spy(nn.Cell):  # type: ignore[misc]
    """Notes the type of what it is given; its own product shows the type it works in."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(4, 4)
        self.given: list[str] = []
        self.made: list[str] = []

    def construct(self, features: Tensor) -> Tensor:
        out = self.dense(features)
        self.given.append(str(features.dtype))
        self.made.append(str(out.dtype))
        return out


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # level O1 leaves rewritten_network/


def net(middle: nn.Cell) -> nn.Cell:
    return nn.SequentialCell(nn.Dense(4, 4), middle, nn.Dense(4, 4))


def run(network: nn.Cell, level: str, names: tuple[str, ...], effect: InEffect) -> Any:
    precision = decide_precision(RunConfig("d", amp_level=level), "CPU")
    changed = mixed(network, precision, names)
    with pynative(effect):
        return changed(Tensor(np.ones((2, 4), np.float32)))


@pytest.mark.parametrize("level", ["O2", "O3"])
@pytest.mark.parametrize("name", ["1", "Spy"], ids=["by path", "by class"])
def test_named_cell_runs_in_float32(level: str, name: str, cpu: InEffect) -> None:
    lowered, kept = Spy(), Spy()
    run(net(lowered), level, (), cpu)
    assert run(net(kept), level, (name,), cpu).dtype == mindspore.float32
    assert (lowered.made, kept.made) == (["Float16"], ["Float32"])


@pytest.mark.parametrize("level", ["O1", "O2", "O3", "auto"])
def test_named_layer_has_its_float32_output(level: str, cpu: InEffect) -> None:
    def head(names: tuple[str, ...]) -> Any:
        mindspore.set_seed(3)
        layers = [nn.ReLU(), nn.Dense(4, 4, weight_init="normal", bias_init=0.123456789)]
        return run(nn.SequentialCell(layers), level, names, cpu).asnumpy()

    mindspore.set_seed(3)
    exact = run(
        nn.SequentialCell(nn.ReLU(), nn.Dense(4, 4, weight_init="normal", bias_init=0.123456789)), "O0", (), cpu
    )
    np.testing.assert_array_equal(head(("1",)), exact.asnumpy())
    assert not np.array_equal(head(()), exact.asnumpy())


@pytest.mark.parametrize(("level", "expected"), [("O2", "Float32"), ("O3", "Float16")])
def test_unlisted_norm_layers_stay_in_float32_except_at_o3(level: str, expected: str, cpu: InEffect) -> None:
    class SpyNorm(Spy):
        pass

    norm = SpyNorm()
    run(net(norm), level, (), cpu)
    assert norm.made == [expected]


def test_name_that_matches_nothing_is_rejected_with_a_suggestion(cpu: InEffect) -> None:
    with pytest.raises(TrainerError, match="--keep-fp32 Dens matches no cell of the model; did you mean 'Dense'"):
        mixed(net(Spy()), decide_precision(RunConfig("d"), "CPU"), ("Dens",))


def test_parameters_keep_their_names_and_order(cpu: InEffect) -> None:
    network = net(nn.SequentialCell(nn.GroupNorm(2, 4), Spy()))
    before = [parameter.name for parameter in network.get_parameters()]
    changed = mixed(network, decide_precision(RunConfig("d", amp_level="O2"), "CPU"), ("Spy", "2"))
    assert [parameter.name for parameter in changed.get_parameters()] == before
