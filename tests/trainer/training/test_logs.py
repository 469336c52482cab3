import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.trainer.examples import RUN_FILES
from trainer import loop
from trainer.cli.progress import Lines
from trainer.config import RunConfig
from trainer.device.context import InEffect
from trainer.errors import TrainerError
from trainer.signals import StopSignals
from trainer.training.logs import open_board

pytestmark = pytest.mark.slow


class Board:
    """Stands for tensorboardX's writer."""

    written: list[tuple[str, float, int]]

    def __init__(self, logdir: str) -> None:
        Board.written = []

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.written.append((name, value, step))

    def flush(self) -> None:
        pass


def test_steps_events_monitors_and_profile_are_written_on_request(
    stripes: Path, cpu: InEffect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", SimpleNamespace(SummaryWriter=Board))
    config = RunConfig(str(stripes), device="CPU", workers=1, image_size=32, batch_size=16, epochs=2, log_every=2)
    stream, out = io.StringIO(), tmp_path / "run"
    asked = replace(config, out=str(out), tensorboard=True, monitor=("LossMonitor", "TimeMonitor"), profile="2..3")
    loop.train(asked, Lines(stream, 2), StopSignals())

    steps: list[dict[str, Any]] = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    assert [(line["epoch"], line["step"]) for line in steps] == [(1, 2), (2, 4), (2, 6)]
    epochs = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert ("step/loss", steps[0]["loss"], 2) in Board.written
    assert ("epoch/val_accuracy", epochs[1]["val_accuracy"], 6) in Board.written
    assert (out / "curves.svg").read_text().startswith("<svg ")
    printed = capsys.readouterr().out
    assert "epoch: 2 step: 3, loss is " in printed
    assert "Train epoch time: " in printed
    assert f"profile of steps 2 to 3: {out / 'profile'} (open it in MindStudio Insight)" in stream.getvalue()
    assert list((out / "profile").rglob("trace_view.json"))
    assert sorted(path.name for path in out.iterdir()) == sorted([*RUN_FILES, "profile"])


def test_tensorboard_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(TrainerError, match=r"pip install tensorboardX"):
        open_board(tmp_path)


def test_event_files_are_written_by_the_real_package(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    board = open_board(tmp_path / "board")
    board.add_scalar("step/loss", 1.5, 1)
    board.close()
    assert next((tmp_path / "board").glob("events.out.tfevents.*")).stat().st_size > 40
