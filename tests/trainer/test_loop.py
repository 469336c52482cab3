import io
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from schemas.dataset import load_dataset
from schemas.errors import ContractError
from tests.trainer.examples import RUN_FILES
from trainer import loop
from trainer.cli.progress import Lines
from trainer.config import RunConfig
from trainer.device.context import InEffect
from trainer.errors import TrainerError
from trainer.runs import checkpoint
from trainer.runs.resume import finished
from trainer.signals import StopSignals

pytestmark = pytest.mark.slow

QUICK = RunConfig(
    "", device="CPU", workers=1, prefetch=2, image_size=32, batch_size=16, epochs=4, lr=0.01, label_smoothing=0.0
)


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def train(config: RunConfig) -> tuple[loop.TrainResult, str]:
    stream = io.StringIO()
    return loop.train(config, Lines(stream, 2), StopSignals()), stream.getvalue()


def test_run_whose_every_update_overflowed_reports_it(stripes: Path, cpu: InEffect) -> None:
    asked = replace(QUICK, dataset=str(stripes), epochs=1, amp_level="O2", loss_scale="1e30", max_overflows=1000)
    result, told = train(asked)
    assert (result.updates, result.skipped, result.learnt) == (3, 3, False)
    assert str(result.warning).startswith("3 of 3 updates were skipped because gradients overflowed")
    assert "2 updates skipped" in next(line for line in told.splitlines() if "  step 2/3  " in line)
    assert finished(replace(asked, out=result.run)) == result


def test_run_learns_and_leaves_exactly_its_folder(stripes: Path, cpu: InEffect) -> None:
    result, told = train(replace(QUICK, dataset=str(stripes), batch_size=8, epochs=10))
    run = Path(result.run)
    assert run == Path.cwd() / "runs" / "stripes-1"
    assert os.listdir(Path.cwd()) == ["runs"]
    assert sorted(os.listdir(run)) == RUN_FILES
    assert result.best_accuracy is not None
    assert result.best_accuracy > 0.8
    assert (result.epochs, result.steps) == (10, 60)
    assert "steps per epoch" in told
    assert "amp level" not in told, "a plain default"
    assert "epoch 10/10  loss " in told
    assert result.bound in ("feed", "compute", "balanced")
    assert result.data_wait is not None
    assert told.splitlines()[-1].startswith("bottleneck: ")

    reports = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [report["epoch"] for report in reports] == list(range(1, 11))
    assert [report["step"] for report in reports] == list(range(6, 61, 6))
    assert reports[-1]["loss"] < reports[0]["loss"]
    assert all(0 <= report["data_wait"] <= 1 and report["images_per_s"] > 0 for report in reports)

    _, best = checkpoint.load(run / "best.ckpt")
    assert (best.accuracy, best.epoch) == (result.best_accuracy, result.best_epoch)
    assert best.dataset_digest == load_dataset(stripes).digest == result.dataset_digest
    assert best.classes == ("across", "down", "plain")
    assert checkpoint.load(run / "last.ckpt")[1].step == 60
    assert RunConfig.from_dict(json.loads((run / "config.json").read_text())) == best.config


def test_float16_is_used_on_cpu_and_a_set_without_val_trains(make_set: Callable[..., Path], cpu: InEffect) -> None:
    config = replace(QUICK, dataset=str(make_set({"train": 20})), amp_level="O2", epochs=1, optimizer="sgd", lr=0.001)
    result, told = train(config)
    assert (result.best_accuracy, result.last_accuracy, result.best_epoch) == (None, None, 1)
    assert "requested, though float16 takes about twice the time on CPU" in told
    assert Path(result.best_checkpoint).exists()
    assert (result.data_wait, result.bound) == (None, None), "one step, and that compiled"


def test_label_outside_the_classes_stops_before_anything_is_compiled_and_leaves_nothing(
    make_set: Callable[..., Path], cpu: InEffect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "Model", None)
    with pytest.raises(ContractError, match="labels outside"):
        train(replace(QUICK, dataset=str(make_set({"train": [0, 1, 2, 3] * 5}))))
    assert os.listdir(Path.cwd()) == []


def test_run_that_fails_to_compile_does_not_block_the_next_command(
    stripes: Path, cpu: InEffect, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(QUICK, dataset=str(stripes), out="mine")

    def fail(step: object) -> None:
        assert Path("../config.json").exists(), "a run works in a folder within its own"
        raise RuntimeError("it does not compile")

    monkeypatch.setattr(loop, "Model", fail)
    with pytest.raises(RuntimeError, match="it does not compile"):
        train(config)
    assert os.listdir(Path.cwd()) == []
    assert finished(replace(config, lr=0.5)) is None


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"profile": "5"}, "--profile 5 is not a range"),
        ({"model": "gone:make"}, r"model 'gone:make': no module 'gone' is installed or in"),
        ({"model": "net:gone"}, "net has no function 'gone'"),
        ({"recipe": "gone:make"}, "no module 'gone'"),
        ({"init": "gone.ckpt"}, r"gone\.ckpt is neither a run folder nor a checkpoint"),
        ({"freeze": ("gone",)}, "--freeze gone: no parameter has this prefix"),
        ({"lr_scale": ("gone=1",)}, "--lr-scale gone: no trainable parameter has this prefix"),
    ],
)
def test_wrong_option_leaves_nothing(wrong: dict[str, object], sentence: str, stripes: Path, cpu: InEffect) -> None:
    Path("net.py").touch()
    with pytest.raises(TrainerError, match=sentence):
        train(replace(QUICK, dataset=str(stripes), out="mine", **wrong))  # type: ignore[arg-type]
    assert not Path("mine").exists()


def test_non_finite_loss_stops_the_run_with_advice(stripes: Path, cpu: InEffect) -> None:
    sentence = r"diverged; the batch has inputs from .* and the images train/.*; try a lower --lr"
    with pytest.raises(TrainerError, match=sentence):
        train(replace(QUICK, dataset=str(stripes), optimizer="sgd", lr=1e30, warmup_epochs=0, weight_decay=1.0))


def test_evaluation_after_every_second_epoch_and_the_last(stripes: Path, cpu: InEffect) -> None:
    result, told = train(replace(QUICK, dataset=str(stripes), epochs=3, val_every=2, class_weights="balanced"))
    lines = (Path(result.run) / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["val_accuracy"] is None for line in lines] == [True, False, False]
    assert result.best_epoch in (2, 3)
    assert "class weights" in told
