"""Ranks that msrun starts: they train as one, end together, and say one thing."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.dataset import load_dataset
from tests.trainer.processes import finish, start
from trainer import loop
from trainer.cli import launch
from trainer.cli.launch import Job, msrun_options
from trainer.config import RunConfig
from trainer.device.context import InEffect
from trainer.errors import Interrupted
from trainer.feed import pipeline
from trainer.feed.pipeline import rank_slice
from trainer.feed.recipes import RECIPES, Pixels
from trainer.runs import checkpoint
from trainer.signals import StopSignals
from trainer.training.progress import Silent, StepReport

pytestmark = pytest.mark.slow

# Without BatchNorm, whose averages within a step are those of one rank's part.
MODEL = """
from mindspore import nn

def plain(num_classes):
    layers = [nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 8, 3, 2), nn.ReLU(), nn.Flatten()]
    return nn.SequentialCell(*layers, nn.Dense(8 * 8 * 8, num_classes))
"""
PIXELS = Pixels(32, (100.0,) * 3, (30.0,) * 3)


@pytest.mark.parametrize("rows", [0, 1, 2, 13, 48])
@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_slices_of_all_ranks_cover_each_row_once(rows: int, ranks: int) -> None:
    slices = [rank_slice(rows, ranks, rank) for rank in range(ranks)]
    covered = [row for start, count in slices for row in range(start, start + count)]
    assert covered == list(range(rows))


def test_binding_is_passed_to_msrun(tmp_path: Path) -> None:
    assert "--bind_numa=True" in msrun_options(Job(2, "numa"), tmp_path)
    assert not [option for option in msrun_options(Job(2), tmp_path) if option.startswith("--bind")]


def labels(batches: Any) -> list[list[int]]:
    return [each[1].tolist() for each in batches.create_tuple_iterator(num_epochs=1, output_numpy=True)]


def test_ranks_together_evaluate_each_row_once(stripes: Path, cpu: InEffect) -> None:
    def val(effect: InEffect) -> list[int]:
        dataset = load_dataset(stripes)
        batches = pipeline.eval_batches(stripes, dataset, "val", RECIPES["none"], PIXELS, 4, effect)
        return list(chain.from_iterable(labels(batches)))

    shares = [val(replace(cpu, num_shards=20, shard_id=rank)) for rank in range(20)]
    assert list(chain.from_iterable(shares)) == val(cpu)
    assert [] in shares, "more ranks than rows"


def test_batches_of_two_ranks_equal_those_of_one_rank(make_set: Callable[..., Path], cpu: InEffect) -> None:
    folder = make_set({"train": 31})  # the ranks get 16 rows each, one of them twice: that batch is left out

    def train(size: int, effect: InEffect) -> list[list[int]]:
        dataset = load_dataset(folder)
        batches = pipeline.train_batches(folder, dataset, RECIPES["none"], PIXELS, size, effect)
        assert batches.get_dataset_size() == 3
        return labels(batches)

    whole = train(8, cpu)
    parts = [train(4, replace(cpu, num_shards=2, shard_id=rank)) for rank in (0, 1)]
    assert [np.stack(pair, axis=1).ravel().tolist() for pair in zip(*parts, strict=True)] == whole


QUICK = ["--device", "CPU", "--workers", "1", "--image-size", "32", "--recipe", "none", "--model", "mine:plain"]


def test_two_ranks_train_like_one_rank_with_twice_the_batch(
    stripes: Path, tmp_path: Path, cpu: InEffect, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    two = ["--ranks", "2", "--batch-size", "8", "--epochs", "3", "--out", "two", "--json"]
    code, out, err = finish(start("run", stripes, *QUICK, *two, cwd=tmp_path))
    assert code == 0, err
    assert json.loads(out)["run"] == str(tmp_path / "two")
    assert err.count("epoch 3/3  loss ") == 1, "one rank speaks"
    assert sorted(os.listdir(tmp_path / "two" / "ranks")) == [
        "msrun.log",
        "scheduler.log",
        "worker_0.log",
        "worker_1.log",
    ]

    (start_line,) = lines(tmp_path / "two" / "starts.jsonl")
    assert ("ranks", "2") in {(decision["setting"], decision["effect"]) for decision in start_line["decisions"]}
    one = RunConfig(str(stripes), out="one", model="mine:plain", recipe="none", image_size=32, epochs=3, batch_size=16)
    loop.train(replace(one, device="CPU", workers=1), Silent(), StopSignals())
    for mine, other in zip(*(lines(tmp_path / name / "metrics.jsonl") for name in ("one", "two")), strict=True):
        assert (mine["step"], mine["val_accuracy"]) == (other["step"], other["val_accuracy"])
        assert mine["loss"] == pytest.approx(other["loss"], rel=1e-4)
        assert mine["val_loss"] == pytest.approx(other["val_loss"], rel=1e-3)
    same_weights(tmp_path / "two", tmp_path / "one")

    with pytest.raises(Interrupted):
        loop.train(replace(one, out="changed", device="CPU", workers=1), *stopping(at=3))
    code, _, err = finish(start("run", stripes, *QUICK, *two, "--out", "changed", cwd=tmp_path))
    assert code == 0, err
    assert "resuming on 2 ranks of batch 8, was 1 rank of batch 16" in err
    same_weights(tmp_path / "changed", tmp_path / "one")
    assert [line["step"] for line in lines(tmp_path / "changed" / "metrics.jsonl")] == [3, 6, 9]


def same_weights(run: Path, other: Path) -> None:
    """Check that the last weights are equal, up to the order of sums."""
    found, expected = (checkpoint.load(each / "last.ckpt")[0] for each in (run, other))
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        np.testing.assert_allclose(found[name].asnumpy(), weight.asnumpy(), atol=1e-4)


def lines(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class Stopping(Silent):
    """Gets a signal at its step number `at`."""

    def __init__(self, stop: StopSignals, at: int) -> None:
        self.stop = stop
        self.left = at

    def step(self, report: StepReport) -> None:
        self.left -= 1
        if not self.left:
            self.stop.signum = signal.SIGTERM


def stopping(at: int = 1) -> tuple[Stopping, StopSignals]:
    stop = StopSignals()
    return Stopping(stop, at), stop


def test_signal_to_the_launcher_saves_all_ranks_and_one_rank_resumes(
    stripes: Path, tmp_path: Path, cpu: InEffect, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(MODEL)
    many = ["--ranks", "2", "--batch-size", "8", "--epochs", "100000", "--log-every", "1", "--out", "mine"]
    process = start("run", stripes, *QUICK, *many, cwd=tmp_path)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("epoch 2/"):
            process.send_signal(signal.SIGTERM)
            break
    code, _, err = finish(process)
    assert code == 143, err
    assert f"Error: stopped by SIGTERM; the last checkpoint is {tmp_path / 'mine' / 'last.ckpt'}" in err
    assert "Traceback" not in err
    deadline = time.monotonic() + 10
    while ranks_alive(tmp_path) and time.monotonic() < deadline:
        os.sched_yield()
    assert not ranks_alive(tmp_path)

    monkeypatch.chdir(tmp_path)
    before = checkpoint.load(tmp_path / "mine" / "last.ckpt")[1].step
    one = RunConfig(str(stripes), out="mine", model="mine:plain", recipe="none", image_size=32, epochs=100000)
    with pytest.raises(Interrupted):
        loop.train(replace(one, batch_size=16, device="CPU", workers=1, resume=True), *stopping())
    assert checkpoint.load(tmp_path / "mine" / "last.ckpt")[1].step == before + 1


def ranks_alive(folder: Path) -> list[str]:
    """The processes that work inside `folder`."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and process.name != str(os.getpid()):
            try:
                if (process / "cwd").resolve().is_relative_to(folder):
                    found.append(process.name)
            except OSError:
                continue
    return found


@pytest.mark.parametrize("named", [True, False], ids=["venv", "debian"])
def test_python_is_this_interpreter_where_the_temporary_folder_is_noexec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    binaries = tmp_path / "bin"
    binaries.mkdir()
    for name in ("python3", "python") if named else ("python3",):
        (binaries / name).symlink_to(os.path.realpath(sys.executable))
    (tmp_path / "ranks").mkdir()
    monkeypatch.setattr(sys, "executable", str(binaries / "python3"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as access(2) says of a file on such a disk
    found = launch._folder_of_python(tmp_path / "ranks")
    assert (found == binaries) is named
    assert (found / "python").resolve() == Path(sys.executable).resolve()
