import json
import os
from collections.abc import Callable
from pathlib import Path

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, nn

from trainer.config import RunConfig
from trainer.device.context import InEffect, check_export, pynative
from trainer.errors import TrainerError
from trainer.evaluation import export
from trainer.evaluation.onnx_cells import prepare_for_onnx
from trainer.feed.recipes import Pixels
from trainer.nn.models.mobilenet import mobilenet_v3
from trainer.nn.models.resnet import resnet18
from trainer.nn.models.tiny import tiny
from trainer.runs import checkpoint

pytestmark = pytest.mark.slow

ASKED = RunConfig("", device="CPU", workers=1)


def write(path: Path, out: Path | None, model_format: str = "mindir") -> export.Exported:
    return export.export_checkpoint(path, model_format, out, 2, ASKED, lambda decisions: None)


def test_mindir_has_the_outputs_of_the_checkpoint_and_a_description(untrained: Path, tmp_path: Path) -> None:
    made = write(untrained, tmp_path / "my model.mindir")
    assert (made.input_shape, made.classes) == ((2, 3, 32, 32), 3)
    assert made.difference is not None
    assert made.difference < 1e-5
    assert sorted(os.listdir(tmp_path)) == ["my model.mindir", "my model.mindir.json"]
    assert os.stat(made.file).st_mode & 0o444 == 0o444, "colleagues can read it"
    told = json.loads(Path(made.description).read_text())
    assert (told["classes"], told["mean"], told["std"]) == (["across", "down", "plain"], [100.0] * 3, [30.0] * 3)
    assert told["input"] == {"shape": [2, 3, 32, 32], "dtype": "float32", "layout": "NCHW", "channels": "RGB"}

    images = Tensor(np.random.default_rng(5).normal(size=(2, 3, 32, 32)).astype(np.float32))
    network = tiny(3)
    checkpoint.restore(network, checkpoint.load(untrained)[0], untrained)
    network.set_train(False)
    found = nn.GraphCell(mindspore.load(made.file))(images)
    np.testing.assert_allclose(found.asnumpy(), network(images).asnumpy(), atol=1e-5)


def test_model_with_other_outputs_is_not_written(
    untrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(export.CHECKS, "mindir", lambda file, images, expected: (0.5, "compared"))
    with pytest.raises(TrainerError, match=r"differs from .* by 0\.5 in a logit"):
        write(untrained, tmp_path / "m.mindir")
    assert os.listdir(tmp_path) == []


def test_onnx_is_written_and_its_check_reported(untrained: Path, tmp_path: Path) -> None:
    made = write(untrained, tmp_path / "m.onnx", "onnx")
    assert Path(made.file).stat().st_size > 100_000
    if made.difference is None:
        assert made.note == "not checked: onnxruntime is not installed (pip install onnxruntime)"
    else:
        assert made.difference < 1e-4


@pytest.mark.parametrize(
    ("make", "lacking"), [(resnet18, nn.MaxPool2d), (mobilenet_v3, nn.HSwish), (mobilenet_v3, nn.HSigmoid)]
)
def test_network_prepared_for_onnx_gives_the_same_outputs_and_keeps_its_weights(
    make: Callable[[int], nn.Cell], lacking: type[nn.Cell], cpu: InEffect
) -> None:
    network = make(3).set_train(False)
    images = Tensor(np.random.default_rng(5).normal(size=(2, 3, 64, 64)).astype(np.float32))
    before, names = network(images).asnumpy(), [parameter.name for parameter in network.get_parameters()]
    prepare_for_onnx(network)
    left = [cell for _, cell in network.cells_and_names() if isinstance(cell, lacking)]
    assert not [cell for cell in left if getattr(cell, "use_pad", True)]
    with pynative(cpu):
        np.testing.assert_allclose(network(images).asnumpy(), before, atol=1e-6)
    assert [parameter.name for parameter in network.get_parameters()] == names


def test_pooling_that_is_not_right_after_a_relu_stays() -> None:
    pool = nn.MaxPool2d(3, 2, pad_mode="pad", padding=1)
    network = nn.SequentialCell([nn.Conv2d(3, 4, 1), pool, nn.ReLU()])
    prepare_for_onnx(network)
    assert network[1] is pool


def test_resnet_is_written_as_onnx(cpu: InEffect, tmp_path: Path) -> None:
    pixels = Pixels(64, (100.0,) * 3, (30.0,) * 3)
    meta = checkpoint.Meta(RunConfig("", model="resnet18"), ("a", "b"), "digest", pixels, 1, 1, None)
    checkpoint.save(tmp_path / "best.ckpt", resnet18(2), meta)
    made = write(tmp_path / "best.ckpt", tmp_path / "m.onnx", "onnx")
    assert Path(made.file).stat().st_size > 40_000_000
    assert made.difference is None or made.difference < 1e-4


def test_air_needs_ascend() -> None:
    check_export("air", "Ascend")
    with pytest.raises(TrainerError, match="AIR on Ascend only, and the device is CPU; use --format mindir"):
        check_export("air", "CPU")


def test_operator_that_onnx_lacks_is_named(untrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise RuntimeError("\nCan not find key MaxPool3DWithArgmax in convert map.\n\n- C++ Call Stack")

    monkeypatch.setattr(mindspore, "export", fail)
    sentence = "cannot write tiny as onnx: Can not find key MaxPool3DWithArgmax in convert map.; use --format mindir"
    with pytest.raises(TrainerError, match=sentence):
        write(untrained, tmp_path / "m.onnx", "onnx")


def test_missing_folder_is_rejected_before_anything_is_loaded(untrained: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="is not a folder; give --out"):
        write(untrained, tmp_path / "gone" / "m.mindir")
