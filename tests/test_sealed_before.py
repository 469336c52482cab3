"""Datasets, run folders and checkpoints of earlier versions are read, and give the same bytes and figures.

tests/cases/make_sealed.py made the archives, each with the source of its version.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dataprep.cli.commands import main as dataprep
from dataprep.tools.verify import verify
from schemas.dataset import load_dataset
from tests.cases.make_sealed import RUN, SEALED, SHARD
from trainer.cli.commands import cli as trainer
from trainer.report.history import read_run

LATEST = "before_move"  # with all that a set has today
VERSIONS = [LATEST, "without_row_digests"]


@pytest.fixture
def printed(version: str) -> Any:
    """What the programs of that version printed."""
    return json.loads((SEALED / f"{version}.json").read_text())


@pytest.fixture
def folder(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with what that version left."""
    shutil.unpack_archive(SEALED / f"{version}.tar.gz", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def run(program: Any, *arguments: str) -> Any:
    """What the program prints as JSON."""
    done = CliRunner().invoke(program, [*arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_set_is_verified_and_has_the_digest_that_was_printed(version: str, folder: Path, printed: Any) -> None:
    assert (folder / "set" / "row_digests.bin").exists() is (version == LATEST)
    assert verify(folder / "set").problems == []
    assert load_dataset(folder / "set").digest == printed["shard"]["digest"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_same_images_and_options_give_the_same_bytes(version: str, folder: Path, printed: Any) -> None:
    before = files(folder / "set")
    shutil.rmtree(folder / "set")
    digest = run(dataprep, *SHARD)["digest"]
    if version == LATEST:
        assert digest == printed["shard"]["digest"]
        assert files(folder / "set") == before
    else:
        shards = {name: data for name, data in before.items() if name != "dataset.json"}
        assert shards.items() <= files(folder / "set").items()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_folder_is_read(folder: Path, printed: Any) -> None:
    history = read_run(folder / "run")
    assert history.state == "complete"
    assert history.dataset_digest == printed["shard"]["digest"]
    assert history.epochs[-1]["val_accuracy"] == printed["run"]["last_accuracy"]


@pytest.mark.slow
@pytest.mark.parametrize("version", [LATEST])
def test_a_checkpoint_is_evaluated_to_the_same_figures(folder: Path, printed: Any) -> None:
    now, then = run(trainer, "eval", "run", "set", "--device", "CPU"), printed["eval"]
    assert {key: now[key] for key in ("rows", "correct", "same_data", "epoch")} == {
        key: then[key] for key in ("rows", "correct", "same_data", "epoch")
    }
    assert now["loss"] == pytest.approx(then["loss"], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("version", [LATEST])
def test_a_killed_run_resumes_to_the_same_figures(folder: Path, printed: Any) -> None:
    now = run(trainer, *RUN, "--out", "killed")
    assert now["dataset_digest"] == printed["shard"]["digest"]
    starts = (folder / "killed" / "starts.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in starts] == [0, 2]
    losses = [json.loads((folder / name / "metrics.jsonl").read_text().splitlines()[-1]) for name in ("killed", "run")]
    assert losses[0]["loss"] == pytest.approx(losses[1]["loss"], rel=1e-4)
