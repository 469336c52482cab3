import gc
import io
import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ContractError
from trainer import loop
from trainer.cli.progress import Lines
from trainer.config import RunConfig
from trainer.device.context import InEffect
from trainer.errors import Interrupted, TrainerError
from trainer.nn.tasks.classification import ClassScores
from trainer.runs import checkpoint, kill_points
from trainer.runs.resume import find_run, finished
from trainer.signals import StopSignals
from trainer.training.progress import StepReport

pytestmark = pytest.mark.slow

# Six steps an epoch, checkpoints after 4, 6, 8 and 12. What else holds state is in test_process.py.
CONFIG = RunConfig(
    "",
    out="mine",
    model="quick_net:make",
    device="CPU",
    workers=1,
    prefetch=2,
    image_size=32,
    batch_size=8,
    epochs=2,
    warmup_epochs=0.5,
    ema=0.9,
    save_every=4,
)


# Compiles in a second.
NET = """
from mindspore import nn

def make(num_classes):
    layers = [nn.Conv2d(3, 4, 4, stride=4, pad_mode="valid"), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()]
    return nn.SequentialCell([*layers, nn.Dense(4 * 8 * 8, num_classes)])
"""


class Killed(BaseException):
    """Stands for the death of the process."""


class Stopping(Lines):
    """Gets a signal at a step."""

    def __init__(self, stop: StopSignals, at: tuple[int, int]) -> None:
        super().__init__(io.StringIO(), 100)
        self.stop = stop
        self.at = at

    def step(self, report: StepReport) -> None:
        if (report.epoch, report.step) == self.at:
            self.stop.signum = signal.SIGTERM


def train(config: RunConfig, stop_at: tuple[int, int] = (0, 0)) -> Any:
    gc.collect()  # or MindSpore compiles a second time when it drops the net of the test before
    stop = StopSignals()
    return loop.train(config, Stopping(stop, stop_at), stop)


def content(run: Path) -> tuple[dict[str, bytes], list[tuple[Any, ...]]]:
    """Every tensor of the best and the last checkpoint, and what in the metrics is no time."""
    tensors: dict[str, bytes] = {}
    for name in ("best.ckpt", "last.ckpt"):
        weights, meta, training = checkpoint._read(run / name)
        entries = {**weights, **{f"t:{key}": value for key, value in (training.parameters if training else {}).items()}}
        tensors |= {f"{name}:{key}": value.asnumpy().tobytes() for key, value in entries.items()}
        tensors[f"{name}:step"] = str((meta.step, meta.epoch, meta.accuracy)).encode()
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return tensors, [tuple(line[k] for k in ("epoch", "step", "loss", "lr", "skipped", "val_loss")) for line in lines]


@pytest.fixture(scope="module")
def undisturbed(
    stripes: Path, cpu: InEffect, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, bytes], list[tuple[Any, ...]]]:
    home, work = Path.cwd(), tmp_path_factory.mktemp("undisturbed")
    run = work / "mine"
    (work / "quick_net.py").write_text(NET)
    os.chdir(work)
    train(replace(CONFIG, dataset=str(stripes), out=str(run)))
    os.chdir(home)
    return content(run)


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "quick_net.py").write_text(NET)
    monkeypatch.chdir(tmp_path / "work")


@pytest.mark.parametrize("place", ["step:1", "step:11", "epoch.metrics:6", "epoch.best:6"])
def test_killed_run_resumes_to_the_same_weights_and_metrics(
    place: str, stripes: Path, undisturbed: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(CONFIG, dataset=str(stripes))

    def reach(name: str, step: int) -> None:
        if f"{name}:{step}" == place:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(kill_points, "kill_point", reach)
        with pytest.raises(Killed):
            train(config)
    assert finished(config) is None
    train(config)
    assert content(Path("mine")) == undisturbed
    assert finished(config) is not None


@pytest.mark.parametrize("at", [(1, 3), (1, 6)], ids=["within an epoch", "before an evaluation"])
def test_stopped_run_resumes_to_the_same_weights_and_metrics(
    at: tuple[int, int], stripes: Path, undisturbed: object
) -> None:
    config = replace(CONFIG, dataset=str(stripes))
    with pytest.raises(Interrupted, match=r"last\.ckpt; resume with the same command and --resume"):
        train(config, stop_at=at)
    assert checkpoint.load(Path("mine/last.ckpt"))[1].step == at[1]
    train(replace(config, resume=True))
    assert content(Path("mine")) == undisturbed
    starts = [json.loads(line) for line in Path("mine/starts.jsonl").read_text().splitlines()]
    assert [start["step"] for start in starts] == [0, at[1]]
    assert starts[1]["decisions"][0] == {"setting": "device", "asked": "CPU", "effect": "CPU", "why": "requested"}


def begun(config: RunConfig, folder: Path = Path("mine")) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(config.to_json())
    return folder


def test_run_with_other_options_is_rejected_with_the_first_difference() -> None:
    begun(replace(CONFIG, lr=0.1, seed=3))
    with pytest.raises(
        TrainerError, match=r"mine was started with --lr 0\.1, now it is default; give the same options"
    ):
        finished(replace(CONFIG, seed=4))


def test_older_run_with_the_former_default_optimizer_resumes() -> None:
    begun(replace(CONFIG, optimizer="adamw"))
    assert finished(CONFIG) is None
    with pytest.raises(TrainerError, match="started with --optimizer adamw, now it is sgd"):
        finished(replace(CONFIG, optimizer="sgd"))


def test_requested_optimizer_must_be_requested_again() -> None:
    begun(replace(CONFIG, optimizer="sgd"))
    with pytest.raises(TrainerError, match="started with --optimizer sgd, now it is default"):
        finished(CONFIG)


def test_options_without_effect_on_weights_may_differ() -> None:
    begun(CONFIG)
    other = replace(CONFIG, log_every=1, keep=3, save_every=None, full_check=True, dataset="moved", resume=True)
    assert finished(replace(other, prefetch=3, workers=2)) is None


def test_run_on_other_data_is_rejected(stripes: Path, make_set: Callable[..., Path], cpu: InEffect) -> None:
    config = replace(CONFIG, dataset=str(stripes), epochs=1)
    train(config)
    with pytest.raises(ContractError, match="started on another dataset"):
        finished(replace(config, dataset=str(make_set({"train": 48}))))


def test_resume_without_out_finds_the_latest_unfinished_run() -> None:
    config = replace(CONFIG, out=None, dataset="flowers", resume=True)
    for number, lr in ((2, None), (9, None), (10, None), (11, 0.5)):
        begun(replace(config, lr=lr), Path(f"runs/flowers-{number}"))
    Path("runs/flowers-10/result.json").touch()
    assert find_run(config).out == "runs/flowers-9"


@pytest.mark.parametrize(("out", "sentence"), [("mine", "has no run to resume"), (None, "no unfinished run")])
def test_resume_without_a_run_is_rejected(out: str | None, sentence: str) -> None:
    with pytest.raises(TrainerError, match=sentence):
        find_run(replace(CONFIG, out=out, resume=True))


def test_damaged_configuration_is_named() -> None:
    (begun(CONFIG) / "config.json").write_text("{")
    with pytest.raises(ContractError, match=r"mine/config\.json cannot be read"):
        finished(CONFIG)


def test_damaged_checkpoint_is_replaced_by_the_previous_one(stripes: Path, cpu: InEffect) -> None:
    config = replace(CONFIG, dataset=str(stripes), keep=2)
    with pytest.raises(Interrupted):
        train(config, stop_at=(2, 3))
    assert sorted(path.name for path in Path("mine").glob("step-*")) == ["step-000000008.ckpt", "step-000000009.ckpt"]
    for name in ("last.ckpt", "step-000000009.ckpt"):
        (Path("mine") / name).write_bytes(b"x")
    stream = io.StringIO()
    loop.train(config, Lines(stream, 100), StopSignals())
    assert "resuming after step 8" in stream.getvalue()
    assert "last.ckpt is damaged" in stream.getvalue()


def test_early_stopped_run_is_complete(stripes: Path, cpu: InEffect, monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(CONFIG, dataset=str(stripes), epochs=9, patience=2)
    scores = iter([0.5, 0.7, 0.7, 0.7])
    patch = monkeypatch.setattr
    patch(loop, "_evaluate_val", lambda *_: ClassScores(10, 1.0, int(10 * next(scores))))
    result = train(config)
    assert (result.epochs, result.steps, result.best_epoch) == (4, 24, 4)
    Path("mine/result.json").unlink()
    again = train(config)
    assert (again.epochs, again.best_epoch, again.best_accuracy) == (4, 4, 0.7)
