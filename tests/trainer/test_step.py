from collections.abc import Iterator
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, amp, nn
from mindspore.train import FixedLossScaleManager, Model

from trainer.device import InEffect
from trainer.objective import SmoothedCrossEntropy
from trainer.step import TrainStep

STEPS = 3


def net() -> nn.Cell:
    mindspore.set_seed(7)
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dense(4 * 64, 3)]
    return nn.SequentialCell(layers)


def batches() -> Iterator[tuple[Tensor, Tensor]]:
    draw = np.random.default_rng(3)
    for _ in range(STEPS):
        yield Tensor(draw.normal(size=(6, 3, 8, 8)).astype(np.float32)), Tensor(draw.integers(0, 3, 6).astype(np.int32))


def weights(network: nn.Cell) -> dict[str, Any]:
    return {parameter.name: parameter.asnumpy().copy() for parameter in network.get_parameters()}


@pytest.fixture(params=[mindspore.GRAPH_MODE, mindspore.PYNATIVE_MODE], ids=["graph", "pynative"])
def mode(request: pytest.FixtureRequest, cpu: InEffect) -> Iterator[None]:
    mindspore.set_context(mode=request.param)
    yield
    mindspore.set_context(mode=mindspore.GRAPH_MODE)


def by_step(level: str, scaler: Any) -> tuple[list[float], dict[str, Any]]:
    network = net()
    optimizer = nn.Momentum(network.trainable_params(), 0.05, 0.9, weight_decay=1e-3)
    step = TrainStep(amp.auto_mixed_precision(network, level), SmoothedCrossEntropy(0.1), optimizer, scaler)
    step.set_train(True)
    losses = [float(step(*batch).asnumpy()) for batch in batches()]
    return losses, weights(network)


def by_model(level: str, scale: float | None) -> tuple[list[float], dict[str, Any]]:
    network = net()
    # On CPU Model never unscales: the optimizer must be told the scale.
    optimizer = nn.Momentum(network.trainable_params(), 0.05, 0.9, weight_decay=1e-3, loss_scale=scale or 1.0)
    manager = None if scale is None else FixedLossScaleManager(scale, drop_overflow_update=False)
    model = Model(network, SmoothedCrossEntropy(0.1), optimizer, amp_level=level, loss_scale_manager=manager)
    model.train_network.set_train(True)
    losses = [float(model.train_network(*batch).asnumpy()) for batch in batches()]
    return losses, weights(network)


@pytest.mark.parametrize(("level", "scale"), [("O0", None), ("O0", 1024.0), ("O2", 1024.0)])
def test_step_equals_models_own_weight_for_weight(level: str, scale: float | None, mode: None) -> None:
    scaler = None if scale is None else amp.StaticLossScaler(scale)
    losses, ours = by_step(level, scaler)
    model_losses, theirs = by_model(level, scale)
    assert losses == model_losses
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


def test_scale_that_overflows_leaves_weights_alone_is_counted_and_halved(mode: None) -> None:
    network = net()
    optimizer = nn.Momentum(network.trainable_params(), 0.05, 0.9)
    scaler = amp.DynamicLossScaler(2.0**120, 2, 1000)
    step = TrainStep(amp.auto_mixed_precision(network, "O2"), SmoothedCrossEntropy(0.0), optimizer, scaler)
    step.set_train(True)
    before = {parameter.name: parameter.asnumpy().copy() for parameter in network.trainable_params()}
    for batch in batches():
        step(*batch)
    assert int(step.skipped.asnumpy()) == STEPS
    assert float(scaler.scale_value.asnumpy()) == 2.0 ** (120 - STEPS)
    for parameter in network.trainable_params():
        np.testing.assert_array_equal(parameter.asnumpy(), before[parameter.name])


def test_dynamic_scale_grows_after_its_window_and_the_weights_move(mode: None) -> None:
    scaler = amp.DynamicLossScaler(8.0, 2, STEPS)
    losses, moved = by_step("O2", scaler)
    assert float(scaler.scale_value.asnumpy()) == 16.0
    assert np.isfinite(losses).all()
    assert not np.array_equal(moved["4.weight"], weights(net())["4.weight"])
