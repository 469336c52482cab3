import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, nn

from schemas.errors import ContractError
from trainer import loop
from trainer.cli.progress import Lines
from trainer.config import RunConfig
from trainer.device.context import InEffect
from trainer.errors import TrainerError
from trainer.feed.recipes import Pixels
from trainer.nn.cross_entropy import SmoothedCrossEntropy
from trainer.nn.models import find_factory
from trainer.nn.optimizer import OPTIMIZERS, has_prefix, parameter_groups, parse_scales, rate_scale
from trainer.nn.step import TrainStep
from trainer.runs import checkpoint
from trainer.runs.checkpoint import Meta
from trainer.signals import StopSignals
from trainer.training.finetune import freeze, load_init, start_from

pytestmark = pytest.mark.slow


class Net(nn.Cell):  # type: ignore[misc]
    """A stem with a norm, and a head."""

    def __init__(self, classes: int, width: int = 4) -> None:
        super().__init__()
        self.stem = nn.SequentialCell([nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.ReLU()])
        self.stage = nn.SequentialCell([nn.Conv2d(width, width, 3), nn.BatchNorm2d(width)])
        self.head = nn.Dense(width, classes)

    def construct(self, images: Tensor) -> Tensor:
        return self.head(self.stage(self.stem(images)).mean((2, 3)))


def values(network: nn.Cell) -> dict[str, Any]:
    return {parameter.name: parameter.asnumpy().copy() for parameter in network.get_parameters()}


def saved(path: Path, network: nn.Cell, classes: int) -> Path:
    names = tuple(f"class {number}" for number in range(classes))
    checkpoint.save(path, network, Meta(RunConfig("x"), names, "", Pixels(8, (1.0,) * 3, (1.0,) * 3), 1, 1, None))
    return path


def changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {name for name in before if not np.array_equal(before[name], after[name])}


def test_all_weights_are_loaded_for_the_same_number_of_classes(tmp_path: Path, cpu: InEffect) -> None:
    old, new = Net(5), Net(5)
    told = load_init(new, saved(tmp_path / "best.ckpt", old, 5), 5)
    assert changed(values(old), values(new)) == set()
    assert told == f"init: all 12 weights from {tmp_path / 'best.ckpt'}"


def test_head_for_other_classes_is_not_loaded_and_reported(tmp_path: Path, cpu: InEffect) -> None:
    old, new = Net(5), Net(3)
    saved(tmp_path / "best.ckpt", old, 5)
    head = new.head.weight.asnumpy().copy()
    told = load_init(new, tmp_path, 3)
    assert (
        told
        == f"init: 10 weights from {tmp_path / 'best.ckpt'}; head.weight, head.bias not loaded: the file has 5 classes"
    )
    assert {name for name in changed(values(old), values(new)) if not name.startswith("head.")} == set()
    np.testing.assert_array_equal(new.head.weight.asnumpy(), head)


def test_weights_from_other_programs_are_loaded(tmp_path: Path, cpu: InEffect) -> None:
    old, new = Net(5), Net(3)
    mindspore.save_checkpoint(old, str(tmp_path / "their.ckpt"))
    assert "10 weights" in load_init(new, tmp_path / "their.ckpt", 3)
    np.testing.assert_array_equal(new.stem[0].weight.asnumpy(), old.stem[0].weight.asnumpy())


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (
            lambda: Net(3, width=6),
            r"'stem\.0\.weight' has shape \(6, 3, 3, 3\) in the file and \(4, 3, 3, 3\) in the model",
        ),
        (lambda: nn.SequentialCell([nn.Dense(2, 3)]), r"the file has no parameter 'stem\.0\.weight' \(and 13 more\)"),
    ],
)
def test_weights_of_another_model_are_rejected_and_nothing_is_loaded(
    other: Callable[[], nn.Cell], sentence: str, tmp_path: Path, cpu: InEffect
) -> None:
    new = Net(3)
    before = values(new)
    with pytest.raises(ContractError, match=f"does not fit the model: {sentence}"):
        load_init(new, saved(tmp_path / "best.ckpt", other(), 3), 3)
    assert changed(before, values(new)) == set()


def test_missing_or_damaged_weights_are_rejected(tmp_path: Path, cpu: InEffect) -> None:
    with pytest.raises(TrainerError, match="neither a run folder nor a checkpoint"):
        load_init(Net(3), tmp_path / "none.ckpt", 3)
    (tmp_path / "bad.ckpt").write_bytes(b"junk")
    with pytest.raises(ContractError, match="damaged or not a MindSpore checkpoint"):
        load_init(Net(3), tmp_path / "bad.ckpt", 3)


@pytest.fixture(params=[mindspore.GRAPH_MODE, mindspore.PYNATIVE_MODE], ids=["graph", "pynative"])
def mode(request: pytest.FixtureRequest, cpu: InEffect) -> Any:
    mindspore.set_context(mode=request.param)
    yield
    mindspore.set_context(mode=mindspore.GRAPH_MODE)


def trained(network: nn.Cell, level: str = "O0", scales: tuple[str, ...] = (), steps: int = 2) -> set[str]:
    """The parameters that move in some steps of SGD."""
    before = values(network)
    rates = [0.1] * steps
    groups = parameter_groups(network.trainable_params(), 0.0, rates, rate_scale(scales))
    optimizer = OPTIMIZERS["sgd"].make(groups, rates)
    step = TrainStep(mindspore.amp.auto_mixed_precision(network, level), SmoothedCrossEntropy(0.1), optimizer, None)
    step.set_train(True)
    draw = np.random.default_rng(3)
    for _ in range(steps):
        images = Tensor(draw.normal(size=(6, 3, 8, 8)).astype(np.float32))
        step(images, Tensor(np.arange(6, dtype=np.int32) % 3))
    return changed(before, values(network))


@pytest.mark.parametrize("level", ["O0", "O2"])
def test_frozen_part_keeps_weights_and_norm_statistics_while_the_rest_learns(level: str, mode: None) -> None:
    network = Net(3)
    assert freeze(network, ["stem"]).startswith("freeze: 124 parameters frozen, ")
    moved = trained(network, level)
    assert moved == {name for name in values(network) if not name.startswith("stem.")}


def test_prefix_ends_at_a_dot() -> None:
    assert has_prefix("stages.1.bias", "stages.1")
    assert has_prefix("stages.1", "stages.1")
    assert not has_prefix("stages.12.bias", "stages.1")


@pytest.mark.parametrize(
    ("prefixes", "sentence"),
    [
        (
            ["stm"],
            "--freeze stm: no parameter has this prefix; top-level prefixes are head, stage, stem, and .* stem.0",
        ),
        (["stem", "stage", "head"], "leaves no trainable parameter"),
    ],
)
def test_prefix_that_matches_nothing_or_all_is_rejected(prefixes: list[str], sentence: str, cpu: InEffect) -> None:
    with pytest.raises(TrainerError, match=sentence):
        freeze(Net(3), prefixes)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_scaled_part_has_its_factor_of_each_rate(optimizer: str, cpu: InEffect) -> None:
    network = Net(3)
    scale = rate_scale(["stem=0.1", "stem.1=0.5"])
    groups = parameter_groups(network.trainable_params(), 0.05, [0.2, 0.4], scale)
    made = OPTIMIZERS[optimizer].make(groups, [0.2, 0.4])
    rates = dict(zip([p.name for p in made.parameters], [float(r.asnumpy()) for r in made.get_lr()], strict=True))
    assert list(rates) == [p.name for p in network.trainable_params()]
    assert rates["stem.0.weight"] == pytest.approx(0.02)
    assert rates["stem.1.gamma"] == pytest.approx(0.1)
    assert rates["head.weight"] == rates["head.bias"] == pytest.approx(0.2)


def test_scaled_part_moves_by_its_factor(mode: None) -> None:
    start, moves = values(Net(3)), []
    for scales in ((), ("stem=0.25",)):
        network = Net(3)
        for parameter in network.get_parameters():
            parameter.set_data(Tensor(start[parameter.name]))
        trained(network, scales=scales, steps=1)
        moves.append({name: value - start[name] for name, value in values(network).items()})
    np.testing.assert_allclose(moves[1]["stem.0.weight"], 0.25 * moves[0]["stem.0.weight"], rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(moves[1]["head.weight"], moves[0]["head.weight"], rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("text", ["stem", "stem=", "=0.1", "stem=x", "stem=0", "stem=-1", "stem=inf", "stem=nan"])
def test_malformed_scale_is_rejected(text: str) -> None:
    with pytest.raises(TrainerError, match="expected PREFIX=FACTOR"):
        parse_scales([text])


def test_scale_of_frozen_parameters_is_rejected(tmp_path: Path, cpu: InEffect) -> None:
    config = RunConfig("d", freeze=("stem",), lr_scale=("stem=0.1",))
    with pytest.raises(TrainerError, match="--lr-scale stem: no trainable parameter has this prefix"):
        list(start_from(Net(3), config, tmp_path, 3, 32))


def test_resumed_run_does_not_need_the_weights_of_init(tmp_path: Path, cpu: InEffect) -> None:
    config = RunConfig("d", init="gone", freeze=("stem",))
    assert [said.partition(":")[0] for said in start_from(Net(3), config, tmp_path, 3, 32, fresh=False)] == ["freeze"]


def test_run_starts_from_given_weights_with_frozen_parameters(
    stripes: Path, tmp_path: Path, cpu: InEffect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first").mkdir()
    saved(tmp_path / "first" / "best.ckpt", find_factory("tiny", tmp_path)(num_classes=2), 2)
    stream = io.StringIO()
    config = RunConfig(str(stripes), out="second", device="CPU", workers=1, image_size=32, batch_size=8, epochs=1)
    tuned = replace(config, init="first", freeze=("stages.0",), lr_scale=("head=2",))
    loop.train(tuned, Lines(stream, 9), StopSignals())
    assert "head.weight, head.bias not loaded: the file has 2 classes" in stream.getvalue()
    first, _ = checkpoint.load(tmp_path / "first" / "best.ckpt")
    second, _ = checkpoint.load(tmp_path / "second" / "last.ckpt")
    moved = {name for name in first if not np.array_equal(first[name].asnumpy(), second[name].asnumpy())}
    assert {name for name in moved if name.startswith("stages.0.")} == set()
    assert {"stages.2.1.moving_mean", "head.bias"} < moved
