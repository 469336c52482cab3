from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.nn.optimizer import OPTIMIZERS, cosine_with_warmup, decays, parameter_groups


def test_schedule_rises_linearly_then_falls_as_half_a_cosine() -> None:
    assert cosine_with_warmup(1.0, 6, 2) == pytest.approx([0.5, 1.0, 1.0, 0.853553, 0.5, 0.146447], abs=1e-6)


@given(st.floats(1e-6, 10), st.integers(1, 300), st.integers(0, 400))
def test_schedule_has_one_positive_rate_per_step_up_to_the_peak(peak: float, steps: int, warmup: int) -> None:
    rates = cosine_with_warmup(peak, steps, warmup)
    assert len(rates) == steps
    assert 0 < min(rates) <= max(rates) <= peak * (1 + 1e-12)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("head.weight", True), ("head.bias", False), ("stages.0.1.gamma", False), ("stages.0.1.beta", False)],
)
def test_norms_and_biases_do_not_decay(name: str, expected: bool) -> None:
    assert decays(name) is expected


def test_groups_have_each_parameter_once_in_order() -> None:
    parameters = [SimpleNamespace(name=name) for name in ("a.weight", "b.gamma", "c.weight", "c.bias")]
    decayed, plain, order = parameter_groups(parameters, 0.05)
    assert [p.name for p in decayed["params"]] == ["a.weight", "c.weight"]
    assert [p.name for p in plain["params"]] == ["b.gamma", "c.bias"]
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.05, 0.0)
    assert order["order_params"] == parameters


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_takes_the_rate_of_each_step(name: str, cpu: object) -> None:
    from mindspore import nn

    net = nn.SequentialCell(nn.Dense(2, 2), nn.BatchNorm1d(2))
    optimizer = OPTIMIZERS[name].make(parameter_groups(net.trainable_params(), 0.1), [0.1, 0.2])
    assert optimizer.get_lr().asnumpy() == pytest.approx(0.1)
    assert [p.name for p in optimizer.parameters] == [p.name for p in net.trainable_params()]
