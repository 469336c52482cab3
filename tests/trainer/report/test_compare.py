import json
import shlex
from dataclasses import replace
from pathlib import Path

import click
import pytest

from tests.trainer.run_folders import CONFIG, DECISIONS, epoch, lines, write_evaluation, write_run
from trainer.cli import commands
from trainer.config import RunConfig
from trainer.report.compare import command, differences, evaluate_command, outcome, settings
from trainer.report.history import read_run, read_runs
from trainer.training.meter import WaitReport


def test_settings_list_decisions_first_and_then_other_options(tmp_path: Path) -> None:
    found = settings(read_run(write_run(tmp_path / "run", replace(CONFIG, lr=0.003))))
    assert [(one.name, one.asked, one.effect, one.why) for one in found[:2]] == [
        (one.setting, one.asked, one.effect, one.why) for one in DECISIONS
    ]
    rest = {one.name: (one.asked, one.effect) for one in found[2:]}
    assert rest["batch size"] == ("16", "16")
    assert rest["model"] == ("default", "tiny")
    assert rest["clip norm"] == ("default", "none")
    assert not {"lr", "device", "dataset", "out"} & set(rest)


def test_setting_in_effect_is_unknown_without_the_table_of_the_run(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "starts.jsonl").unlink()
    found = {one.name: (one.asked, one.effect) for one in settings(read_run(run))}
    assert found["device"] == ("default", "not recorded")
    assert found["batch size"] == ("16", "16")


def test_settings_that_differ_are_compared_by_their_values_in_effect(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one")
    other = write_run(tmp_path / "other", replace(CONFIG, batch_size=64, lr=0.1, out="other"))
    start = json.loads((other / "starts.jsonl").read_text())
    start["decisions"][1]["effect"] = "0.1"
    start |= {"software": {"mindspore": "2.9.0"}, "dataset_digest": "e" * 64}
    lines(other / "starts.jsonl", [start])
    found = {difference.name: difference.values for difference in differences(read_runs([one, other]))}
    assert found == {
        "peak lr": ("0.003", "0.1"),
        "batch size": ("16", "64"),
        "data": ("d" * 12, "e" * 12),
        "mindspore": ("2.10.0", "2.9.0"),
    }
    (other / "starts.jsonl").unlink()
    found = {difference.name: difference.values for difference in differences(read_runs([one, other]))}
    assert "device" not in found, "asked for by neither"
    assert found["peak lr"] == ("0.003", "0.1"), "what was given is in effect"


def test_outcome_comes_from_the_epochs(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", epochs=3, complete=False)
    write_evaluation(run, ("a", "b"), 30)
    found = outcome(read_run(run))
    assert (found.best_accuracy, found.best_epoch, found.last_accuracy) == (0.9, 3, 0.9)
    assert (found.epochs, found.steps, found.images_per_s, found.seconds) == (3, 30, 102.0, 6.0)
    assert (found.best_val_loss, found.last_loss) == (0.5, pytest.approx(2 / 3))
    assert found.evaluated == {"val": pytest.approx(2 / 3)}
    assert outcome(read_run(write_run(tmp_path / "whole"))).seconds == 12.5


def test_bottleneck_is_that_of_the_result(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps(result | {"data_wait": 0.6, "bound": "feed"}))
    found = outcome(read_run(run))
    assert (found.bound, found.data_wait) == ("feed", 0.6)
    assert found.limit == WaitReport("feed", 0.6, "CPU")
    (run / "result.json").write_text(json.dumps(result | {"data_wait": 0.6, "bound": ["other"]}))
    assert outcome(read_run(run)).bound is None


def test_of_equal_epochs_the_later_one_is_the_best_and_none_without_val(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    lines(run / "metrics.jsonl", [epoch(1, val_accuracy=0.8), epoch(2, val_accuracy=0.8), epoch(3, val_accuracy=0.1)])
    assert outcome(read_run(run)).best_epoch == 2
    lines(run / "metrics.jsonl", [epoch(1, val_accuracy=None, val_loss=None)])
    found = outcome(read_run(run))
    assert (found.best_accuracy, found.best_epoch, found.best_val_loss) == (None, None, None)
    assert evaluate_command(read_run(run)).endswith("data/flowers --split train")


def test_run_with_only_its_configuration_has_an_outcome(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    found = outcome(read_run(tmp_path))
    assert (found.epochs, found.steps, found.seconds, found.best_accuracy) == (0, 0, None, None)
    assert command(read_run(tmp_path)) is None


GIVEN = replace(
    CONFIG,
    dataset="my data",
    sink=False,
    keep_fp32=("head", "GroupNorm"),
    tensorboard=True,
    lr=0.5,
    out="x",
    resume=True,
)


def test_command_gives_the_same_configuration_again(tmp_path: Path) -> None:
    said = command(read_run(write_run(tmp_path / "run", GIVEN)))
    assert said is not None
    assert said.startswith("trainer run 'my data' ")
    context: click.Context = commands.run.make_context("run", shlex.split(said)[2:])
    names = set(RunConfig.__dataclass_fields__)
    again = RunConfig(**{name: value for name, value in context.params.items() if name in names})
    assert again == replace(GIVEN, out=None, resume=False)
