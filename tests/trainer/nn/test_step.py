import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, amp, nn
from mindspore.train import FixedLossScaleManager, Model

from trainer.device.context import InEffect
from trainer.nn.cross_entropy import SmoothedCrossEntropy
from trainer.nn.step import StepOptions, TrainStep

pytestmark = pytest.mark.slow

STEPS = 3


def net() -> nn.Cell:
    gc.collect()  # or MindSpore compiles a second time when it drops the net before
    mindspore.set_seed(7)
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dense(4 * 64, 3)]
    return nn.SequentialCell(layers)


def batches() -> Iterator[tuple[Tensor, Tensor]]:
    draw = np.random.default_rng(3)
    for _ in range(STEPS):
        yield Tensor(draw.normal(size=(6, 3, 8, 8)).astype(np.float32)), Tensor(draw.integers(0, 3, 6).astype(np.int32))


def weights(network: nn.Cell) -> dict[str, Any]:
    return {parameter.name: parameter.asnumpy().copy() for parameter in network.get_parameters()}


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # level O1 leaves rewritten_network/


@pytest.fixture(params=[mindspore.GRAPH_MODE, mindspore.PYNATIVE_MODE], ids=["graph", "pynative"])
def mode(request: pytest.FixtureRequest, cpu: InEffect) -> Iterator[None]:
    mindspore.set_context(mode=request.param)
    yield
    mindspore.set_context(mode=mindspore.GRAPH_MODE)


def by_step(level: str, scaler: Any, options: StepOptions | None = None) -> tuple[list[float], dict[str, Any]]:
    network = net()
    optimizer = nn.Momentum(network.trainable_params(), 0.05, 0.9, weight_decay=1e-3)
    step = TrainStep(amp.auto_mixed_precision(network, level), SmoothedCrossEntropy(0.1), optimizer, scaler, options)
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
    compare(level, scale)


@pytest.mark.parametrize("level", ["O1", "O3", "auto"])
def test_step_equals_models_own_at_the_other_levels_too(level: str, cpu: InEffect) -> None:
    compare(level, 1024.0)


def compare(level: str, scale: float | None) -> None:
    scaler = None if scale is None else amp.StaticLossScaler(scale)
    losses, ours = by_step(level, scaler)
    model_losses, theirs = by_model(level, scale)
    assert losses == model_losses
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


def test_overflow_skips_the_update_is_counted_and_halves_the_scale(mode: None) -> None:
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


def trainer(options: StepOptions, scaler: Any = None, rate: float = 0.5) -> TrainStep:
    gc.collect()  # or MindSpore compiles a second time when it drops the net of the test before
    mindspore.set_seed(5)
    network = nn.SequentialCell(nn.Flatten(), nn.Dense(3 * 8 * 8, 3))
    optimizer = nn.SGD(network.trainable_params(), rate)
    step = TrainStep(network, SmoothedCrossEntropy(0.0), optimizer, scaler, options)
    step.set_train(True)
    return step


def test_accumulated_batches_are_one_update_of_their_mean_gradient(mode: None) -> None:
    given = list(batches())
    whole = tuple(Tensor(np.concatenate([batch[i].asnumpy() for batch in given])) for i in range(2))
    once, thrice = trainer(StepOptions()), trainer(StepOptions(accumulate=STEPS), amp.StaticLossScaler(64.0))
    before = weights(thrice.network)
    once(*whole)
    for number, batch in enumerate(given):
        moved = any((value != before[name]).any() for name, value in weights(thrice.network).items())
        assert not moved, f"before batch {number}"
        thrice(*batch)
    theirs = weights(once.network)
    for name, value in weights(thrice.network).items():
        np.testing.assert_allclose(value, theirs[name], rtol=1e-5, atol=1e-6)
    assert not any(total.asnumpy().any() for total in thrice.sums)


def test_overflow_in_one_accumulated_batch_skips_the_update(cpu: InEffect) -> None:
    step = trainer(StepOptions(accumulate=STEPS), amp.DynamicLossScaler(2.0, 2, 1000))
    before = weights(step.network)
    for number, (images, labels) in enumerate(batches()):
        step(images * Tensor(np.float32("inf")) if number == 1 else images, labels)
    assert (int(step.skipped.asnumpy()), int(step.skipped_in_row.asnumpy())) == (1, 1)
    for batch in batches():
        step(*batch)
    assert (int(step.skipped.asnumpy()), int(step.skipped_in_row.asnumpy())) == (1, 0)
    assert any((value != before[name]).any() for name, value in weights(step.network).items())


@pytest.mark.parametrize("bound", [1e-3, 1e3])
def test_gradient_norm_is_clipped_only_above_the_bound(bound: float, cpu: InEffect) -> None:
    free, clipped = trainer(StepOptions(), rate=1.0), trainer(StepOptions(clip_norm=bound), rate=1.0)
    before, batch = weights(free.network), next(batches())
    free(*batch)
    clipped(*batch)
    gradient = {name: before[name] - value for name, value in weights(free.network).items()}
    norm = np.sqrt(sum((value.astype(np.float64) ** 2).sum() for value in gradient.values()))
    for name, value in weights(clipped.network).items():
        np.testing.assert_allclose(before[name] - value, gradient[name] * min(1.0, bound / norm), rtol=1e-3, atol=1e-7)


def test_averages_follow_the_weights_and_are_evaluated_and_saved(cpu: InEffect) -> None:
    step = trainer(StepOptions(ema=0.5))
    expected = weights(step.network)
    for number, batch in enumerate(batches(), start=1):
        step(*batch)
        decay = min(0.5, (1 + number) / (10 + number))
        expected = {name: decay * expected[name] + (1 - decay) * now for name, now in weights(step.network).items()}
    kept = {name: parameter.asnumpy() for name, parameter in step.inference_parameters().items()}
    own = weights(step.network)
    with step.averaged():
        evaluated = weights(step.network)
    for name, value in expected.items():
        np.testing.assert_allclose(kept[name], value, rtol=1e-5)
        np.testing.assert_array_equal(evaluated[name], kept[name])
        np.testing.assert_array_equal(weights(step.network)[name], own[name])


def test_evaluating_the_averages_does_not_change_training(mode: None) -> None:
    ends = []
    for evaluated in (False, True):
        step = trainer(StepOptions(ema=0.5))
        step(*next(batches()))
        if evaluated:
            with step.averaged():
                step.network(next(batches())[0]).asnumpy()
        for batch in batches():
            step(*batch)
        ends.append(weights(step.network))
    for name, value in ends[0].items():
        np.testing.assert_array_equal(value, ends[1][name])


def test_training_state_has_each_parameter_once(cpu: InEffect) -> None:
    network = net()
    optimizer = nn.AdamWeightDecay(network.trainable_params(), [0.1, 0.2])
    options = StepOptions(accumulate=2, ema=0.9)
    step = TrainStep(network, SmoothedCrossEntropy(0.1), optimizer, amp.DynamicLossScaler(2.0, 2, 10), options)
    state, kept = step.training_parameters(), step.inference_parameters()
    assert {id(p) for p in step.get_parameters()} <= {id(p) for p in [*state.values(), *kept.values()]}
    assert {"scale_value", "counter", "skipped_steps", "gathered", "updates", "global_step", "0.weight"} <= set(state)
