import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.trainer.run_folders import DECISIONS, start
from trainer.decisions import Decision, StartSettings
from trainer.runs.history import Start, append_start, software, start_settings


def read(run: Path) -> list[Start]:
    return [Start.from_dict(json.loads(line)) for line in (run / "starts.jsonl").read_text().splitlines()]


def test_each_process_appends_a_record(tmp_path: Path) -> None:
    append_start(tmp_path, 0, "digest", DECISIONS)
    append_start(tmp_path, 7, "digest", DECISIONS[:1])
    begun, taken_up = read(tmp_path)
    assert (begun.step, begun.decisions, begun.dataset_digest) == (0, DECISIONS, "digest")
    assert (taken_up.step, taken_up.decisions) == (7, DECISIONS[:1])
    assert begun.at.endswith("+00:00")


def test_every_decision_is_stored_whether_the_table_shows_it_or_not(tmp_path: Path) -> None:
    notable, plain = Decision("device", "default", "CPU", "y", notable=True), Decision("mode", "default", "graph", "x")
    append_start(tmp_path, 0, "digest", [notable, plain])
    assert read(tmp_path)[0].decisions == (replace(notable, notable=False), plain)
    stored = json.loads((tmp_path / "starts.jsonl").read_text())["decisions"][0]
    assert stored == {"setting": "device", "asked": "default", "effect": "CPU", "why": "y"}


def test_software_versions_are_recorded() -> None:
    assert {"Python", "mindspore", "numpy"} <= set(software())


@pytest.mark.parametrize("broken", [{}, {"step": "x"}, {"decisions": [{"other": "form"}]}, {"software": []}])
def test_invalid_record_is_rejected(broken: dict[str, object]) -> None:
    whole = json.loads(json.dumps(vars(start()), default=vars))
    values = whole | broken if broken else {}
    with pytest.raises((TypeError, KeyError, ValueError, AttributeError)):
        Start.from_dict(values)


@pytest.mark.parametrize("checkpoint", ["last.ckpt", "step-000000009.ckpt"])
def test_start_settings_are_those_of_the_process_that_made_the_first_steps(checkpoint: str, tmp_path: Path) -> None:
    version = software()["mindspore"]
    assert start_settings(None) is None
    append_start(tmp_path, 0, "digest", DECISIONS, "SSE41")  # killed before a checkpoint
    assert start_settings(str(tmp_path)) is None
    append_start(tmp_path, 0, "digest", DECISIONS, "AVX2")
    append_start(tmp_path, 9, "digest", DECISIONS, "AVX512_CORE")
    (tmp_path / "best.ckpt").touch()  # written before the last one: no run goes on from it
    assert start_settings(str(tmp_path)) is None
    (tmp_path / checkpoint).touch()
    assert start_settings(str(tmp_path)) == StartSettings("AVX2", version, lr=0.003)


@pytest.mark.parametrize("text", [None, "", "{}\n", "not JSON\n", '{"step": 0, "at": 1, "dataset_digest": ""}\n'])
def test_unreadable_records_give_unknown_settings(text: str | None, tmp_path: Path) -> None:
    (tmp_path / "last.ckpt").touch()
    if text is not None:
        (tmp_path / "starts.jsonl").write_text(text)
    assert start_settings(str(tmp_path)) == StartSettings("", "")


def test_start_settings_come_from_the_first_record(tmp_path: Path) -> None:
    effects = {"workers": "5", "ranks": "2", "optimizer": "sgd", "peak lr": "0.0354", "weight decay": "2e-05"}
    append_start(tmp_path, 0, "digest", [Decision(name, "default", value, "") for name, value in effects.items()])
    append_start(tmp_path, 9, "digest", [Decision("workers", "default", "1", "")])
    (tmp_path / "last.ckpt").touch()
    version = software()["mindspore"]
    assert start_settings(str(tmp_path)) == StartSettings("", version, 5, 2, "sgd", 0.0354, 2e-5)


def test_optimizer_of_an_older_run_comes_from_its_configuration(tmp_path: Path) -> None:
    append_start(tmp_path, 0, "digest", [Decision("peak lr", "default", "0.003", "adamw, batch 16, cosine")])
    (tmp_path / "config.json").write_text('{"optimizer": "adamw"}')
    (tmp_path / "last.ckpt").touch()
    begun = start_settings(str(tmp_path))
    assert begun is not None
    assert (begun.optimizer, begun.lr, begun.weight_decay, begun.workers) == ("adamw", 0.003, None, None)


def test_record_without_kernels_is_read(tmp_path: Path) -> None:
    line = json.loads(json.dumps(vars(start()), default=vars))
    del line["instruction_set"]
    (tmp_path / "last.ckpt").touch()
    (tmp_path / "starts.jsonl").write_text(json.dumps(line) + "\n")
    assert start_settings(str(tmp_path)) == StartSettings("", "2.10.0", lr=0.003)
