import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import mindspore
import numpy as np
import pytest
from mindspore import nn

from schemas.errors import ContractError
from trainer.config import RunConfig
from trainer.device.context import InEffect
from trainer.errors import TrainerError
from trainer.feed.recipes import Pixels
from trainer.runs import checkpoint
from trainer.runs.state import RunState

pytestmark = pytest.mark.slow

META = checkpoint.Meta(
    config=RunConfig("data/ünïcode", lr=0.1, sink=False),
    classes=("a", "b\n", "ç"),
    dataset_digest="0" * 64,
    pixels=Pixels(32, (1.0, 2.0, 3.0), (4.0, 5.0, 6.0)),
    epoch=2,
    step=9,
    accuracy=None,
)


def net(outputs: int = 3) -> nn.Cell:
    return nn.SequentialCell(nn.Dense(4, outputs), nn.BatchNorm1d(outputs))


def test_weights_and_metadata_are_restored(tmp_path: Path, cpu: InEffect) -> None:
    network, other = net(), net()
    checkpoint.save(tmp_path / "best.ckpt", network, META)
    loaded, meta = checkpoint.load(tmp_path / "best.ckpt")
    checkpoint.restore(other, loaded, tmp_path / "best.ckpt")
    assert meta == META
    for ours, theirs in zip(network.get_parameters(), other.get_parameters(), strict=True):
        np.testing.assert_array_equal(ours.asnumpy(), theirs.asnumpy())


def test_saving_replaces_the_file_leaves_nothing_else_and_obeys_the_umask(tmp_path: Path, cpu: InEffect) -> None:
    before = os.umask(0o027)
    try:
        checkpoint.save(tmp_path / "last.ckpt", net(), META)
        checkpoint.save(tmp_path / "last.ckpt", net(), replace(META, epoch=3))
    finally:
        os.umask(before)
    assert os.listdir(tmp_path) == ["last.ckpt"]
    assert stat.S_IMODE((tmp_path / "last.ckpt").stat().st_mode) == 0o640
    assert checkpoint.load(tmp_path / "last.ckpt")[1].epoch == 3


def test_failed_save_keeps_the_earlier_checkpoint(
    tmp_path: Path, cpu: InEffect, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.save(tmp_path / "last.ckpt", net(), META)

    def full(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        checkpoint.save(tmp_path / "last.ckpt", net(), replace(META, epoch=3))
    assert os.listdir(tmp_path) == ["last.ckpt"]
    assert checkpoint.load(tmp_path / "last.ckpt")[1].epoch == 2


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "text"])
def test_damaged_file_is_rejected(damage: str, tmp_path: Path, cpu: InEffect) -> None:
    path = tmp_path / "best.ckpt"
    checkpoint.save(path, net(), META)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    damaged = {"flipped": bytes(data), "cut": bytes(data[:50]), "empty": b"", "text": b"hello\n" * 50}
    path.write_bytes(damaged[damage])
    with pytest.raises(ContractError, match=r"best\.ckpt"):
        checkpoint.load(path)


def test_checkpoint_of_another_program_is_rejected(tmp_path: Path, cpu: InEffect) -> None:
    mindspore.save_checkpoint(net(), str(tmp_path / "x.ckpt"), crc_check=True)
    with pytest.raises(ContractError, match="was not written by 'trainer run'"):
        checkpoint.load(tmp_path / "x.ckpt")


def test_weights_of_another_model_are_rejected(tmp_path: Path, cpu: InEffect) -> None:
    path = tmp_path / "best.ckpt"
    checkpoint.save(path, nn.SequentialCell(nn.Dense(4, 3)), META)
    loaded, _ = checkpoint.load(path)
    with pytest.raises(ContractError, match="does not fit the model"):
        checkpoint.restore(net(), loaded, path)


def test_weights_of_another_width_are_rejected(tmp_path: Path, cpu: InEffect) -> None:
    path = tmp_path / "best.ckpt"
    checkpoint.save(path, net(2), META)
    loaded, _ = checkpoint.load(path)
    with pytest.raises(ContractError, match="does not fit the model"):
        checkpoint.restore(net(3), loaded, path)


def test_run_folder_means_its_best_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "best.ckpt").touch()
    assert checkpoint.find(tmp_path) == tmp_path / "best.ckpt"
    assert checkpoint.find(tmp_path / "best.ckpt") == tmp_path / "best.ckpt"


def test_other_paths_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match=r"has no best\.ckpt"):
        checkpoint.find(tmp_path)
    with pytest.raises(TrainerError, match="neither a run folder nor a checkpoint"):
        checkpoint.find(tmp_path / "nothing")


def test_training_state_is_restored_separately_from_the_weights(tmp_path: Path, cpu: InEffect) -> None:
    def state(fill: int) -> dict[str, mindspore.Parameter]:
        shapes: list[tuple[int, ...]] = [(), (1,), (2, 3)]
        return {f"p{len(s)}": mindspore.Parameter(np.full(s, fill, np.float32), name=f"p{len(s)}") for s in shapes}

    path, network, place = tmp_path / "last.ckpt", net(), RunState(step=9, best_accuracy=0.5, meter={"loss_sum": 0.1})
    checkpoint.save(path, network, META, checkpoint.Training(state(7), place))
    weights, meta, training = checkpoint.load_training(path)
    assert (meta, training.state) == (META, place)
    assert weights.keys() == {p.name for p in network.get_parameters()} == checkpoint.load(path)[0].keys()
    filled = state(0)
    checkpoint.fill(filled, training.parameters, path)
    for name, value in state(7).items():
        np.testing.assert_array_equal(filled[name].asnumpy(), value.asnumpy())
    with pytest.raises(ContractError, match="'p0' is missing on one side"):
        checkpoint.fill({"p1": filled["p1"], "p2": filled["p2"]}, training.parameters, path)


def test_weights_alone_cannot_be_resumed(tmp_path: Path, cpu: InEffect) -> None:
    checkpoint.save(tmp_path / "best.ckpt", net(), META)
    with pytest.raises(ContractError, match="has weights only"):
        checkpoint.load_training(tmp_path / "best.ckpt")


def test_stored_form_is_plain_json() -> None:
    assert json.loads(META.to_json())["config"]["sink"] is False
