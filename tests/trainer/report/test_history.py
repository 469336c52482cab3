import fcntl
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.trainer.run_folders import CONFIG, epoch, lines, start, step, write_evaluation, write_run
from trainer.errors import TrainerError
from trainer.report.evaluated import read_picture
from trainer.report.history import number, read_run, read_runs, series, short_names


def missing(run: Path) -> dict[str, str]:
    return {one.file: one.why for one in read_run(run).missing}


def test_whole_run_is_read_and_nothing_is_missing(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "run"))
    assert (len(run.epochs), len(run.steps), run.options["batch_size"]) == (4, 40, 16)
    assert run.decisions["peak lr"] == ("default", "0.003", "adamw, batch 16, cosine")
    assert (run.state, run.dataset_digest, run.steps_per_epoch) == ("complete", "d" * 64, 10)
    assert run.missing == ()


def test_unfinished_run_shows_its_progress(tmp_path: Path) -> None:
    assert read_run(write_run(tmp_path / "a", epochs=2, complete=False)).state == "unfinished, 2 of 4 epochs done"
    begun = write_run(tmp_path / "b", epochs=0, complete=False)
    for name in ("metrics.jsonl", "steps.jsonl"):
        (begun / name).unlink()
    assert read_run(begun).state == "unfinished, 0 of 4 epochs done"
    assert missing(begun)["metrics.jsonl"].startswith("no epoch has ended yet")


def test_active_run_is_distinguished_from_a_stopped_run(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", epochs=1, complete=False)
    descriptor = os.open(run, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert read_run(run).state == "in training, 1 of 4 epochs done"
    finally:
        os.close(descriptor)


def test_early_stop_and_nonfinite_loss_are_shown(tmp_path: Path) -> None:
    early = write_run(tmp_path / "early", replace(CONFIG, patience=1), epochs=3)
    assert read_run(early).state == "complete, stopped early after 3 of 4 epochs"
    lost = write_run(tmp_path / "lost", epochs=1, complete=False)
    (lost / "nonfinite.json").write_text(json.dumps({"what": "the loss is nan"}))
    assert read_run(lost).state == "stopped: loss became NaN or infinite, 1 of 4 epochs done"


def test_steps_that_were_done_again_after_a_resume_count_once(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", epochs=1, complete=False)
    lines(run / "steps.jsonl", [step(10), step(20, loss=9.0), step(30), step(20, loss=1.0)])
    assert [(line["step"], line["loss"]) for line in read_run(run).steps][1] == (20, 1.0)
    assert [line["step"] for line in read_run(run).steps] == [10, 20, 30]


def test_settings_in_effect_are_those_of_the_latest_process(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    lines(
        run / "starts.jsonl",
        [json.loads(json.dumps(vars(one), default=vars)) for one in (start(), start(20, device="Ascend"))],
    )
    assert read_run(run).decisions["device"][1] == "Ascend"


@pytest.mark.parametrize("name", ["config.json", "starts.jsonl", "metrics.jsonl", "steps.jsonl"])
def test_run_without_a_file_is_read_and_the_file_is_named(tmp_path: Path, name: str) -> None:
    run = write_run(tmp_path / "run")
    (run / name).unlink()
    assert list(missing(run)) == [name]


def test_damaged_files_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "config.json").write_text("[]")
    (run / "result.json").write_text("{")
    (run / "starts.jsonl").write_text('{"step": 1}\n')
    lines(run / "metrics.jsonl", [epoch(1), epoch(2)])
    with (run / "metrics.jsonl").open("a") as file:
        file.write('no JSON\n{"epoch": 3, "st')  # the last line is being written
    found = read_run(run)
    assert len(found.epochs) == 2
    assert missing(run)["metrics.jsonl"] == "1 of its 3 lines are not JSON objects, ignored"
    assert set(missing(run)) == {"config.json", "result.json", "starts.jsonl", "metrics.jsonl"}


@pytest.mark.parametrize("make", [True, False])
def test_folder_without_a_run_is_rejected(tmp_path: Path, make: bool) -> None:
    if make:
        (tmp_path / "other").mkdir()
    with pytest.raises(TrainerError, match=r"other (has no run|is not a folder); give the --out of a 'trainer run'"):
        read_run(tmp_path / "other")


def test_run_given_twice_is_rejected(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    with pytest.raises(TrainerError, match="is given twice"):
        read_runs([run, run / "."])


def test_runs_are_named_by_the_part_of_their_path_that_differs() -> None:
    assert short_names([Path("/a/x"), Path("/a/y")]) == ["x", "y"]
    assert short_names([Path("/a/b/run"), Path("/a/c/run"), Path("/a/c/other")]) == ["b/run", "c/run", "c/other"]


def test_only_finite_numbers_are_numbers() -> None:
    values = ["1", None, True, float("nan"), float("inf"), [], 2]
    assert [number(value) for value in values] == [None] * 6 + [2.0]
    found = series([epoch(1), epoch(2, loss="<script>"), epoch(3, loss=float("nan"))], "loss", "epoch")
    assert found.x.tolist() == [1, 2, 3]
    assert np.isfinite(found.y).tolist() == [True, False, False]


def test_evaluations_are_read_and_damage_in_one_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    write_evaluation(run, ("a", "b"), 20)
    write_evaluation(run, ("a", "b"), 20, split="test")
    (run / "eval" / "test" / "report.json").write_text('{"classes": [], "confusion": []}')
    (found,) = read_run(run).evaluations
    assert (found.split, found.epoch, found.confusion.sum()) == ("val", 3, 20)
    assert read_picture(run, "val", 0) == (run / "eval" / "val" / "worst" / "0001.jpg").read_bytes()
    assert read_picture(run, "val", 99) is None
    assert list(missing(run)) == ["eval/test/report.json"]
