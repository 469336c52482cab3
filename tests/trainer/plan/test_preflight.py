import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from schemas.errors import ContractError
from tests.trainer.run_folders import start
from trainer.cli import commands
from trainer.decisions import Decision
from trainer.errors import TrainerError, WrongUsage


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def dry_run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(commands.cli, ["run", str(folder), "--device", "CPU", "--dry-run", *arguments])


@pytest.mark.parametrize(
    ("wrong", "kind", "sentence"),
    [
        (["--profile", "5"], WrongUsage, "--profile 5 is not a range of steps"),
        (["--lr-scale", "head"], WrongUsage, "--lr-scale head: expected PREFIX=FACTOR"),
        (["--model", "gone.nets:make"], WrongUsage, "model 'gone.nets:make': no module 'gone' is installed or in"),
        (["--init", "gone.ckpt"], WrongUsage, "gone.ckpt is neither a run folder nor a checkpoint"),
        (["--init", "."], TrainerError, "has no best.ckpt"),
        (["--batch-size", "49"], TrainerError, "larger than the train split (48 rows)"),
        (["--out", "taken"], TrainerError, "taken already exists"),
        (["--tensorboard"], TrainerError, "pip install tensorboardX"),
    ],
)
def test_dry_run_rejects_a_run_that_cannot_start(
    wrong: list[str], kind: type[Exception], sentence: str, stripes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    Path("taken").touch()
    done = dry_run(stripes, *wrong)
    assert type(done.exception) is kind
    assert sentence in str(done.exception)
    assert done.stdout == ""
    assert os.listdir() == ["taken"]


@pytest.mark.parametrize("name", ["train.mindrecord1", "train.mindrecord0.db", "val.mindrecord0"])
def test_dry_run_rejects_a_dataset_with_a_missing_or_truncated_file(name: str, stripes: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(stripes, tmp_path / "set")
    os.truncate(folder / name, 9)
    with pytest.raises(ContractError, match=f"is damaged: {name} has 9 bytes, expected .*; restore the dataset"):
        raise dry_run(folder).exception or AssertionError
    (folder / name).unlink()
    with pytest.raises(ContractError, match=f"is damaged: {name} is missing"):
        raise dry_run(folder).exception or AssertionError


def test_dry_run_lists_unchecked_items_and_imports_no_user_code(stripes: Path, untrained: Path) -> None:
    Path("own_net.py").write_text("raise AssertionError('imported')")
    asked = ["--model", "own_net:make", "--init", str(untrained), "--freeze", "stem"]
    done = dry_run(stripes, *asked)
    assert done.exit_code == 0, done.exception
    unchecked = [
        "the bytes of the shards and their indexes",
        "that own_net:make returns a network for 3 classes",
        f"that the weights in {untrained} fit the model",
        "that --freeze, --lr-scale and --keep-fp32 match parameters of the model",
    ]
    assert done.stdout.endswith("\nnot checked: " + "; ".join(unchecked) + "\n")
    assert json.loads(dry_run(stripes, *asked, "--json").stdout)["unchecked"] == unchecked


def test_resume_does_not_need_the_initial_weights(stripes: Path) -> None:
    begin = ["--out", "mine", "--init", "gone.ckpt"]
    config = json.loads(dry_run(stripes, "--json").stdout)["config"]
    Path("mine").mkdir()
    Path("mine/config.json").write_text(json.dumps(config | {"out": "mine", "init": "gone.ckpt"}))
    assert isinstance(dry_run(stripes, *begin).exception, TrainerError)
    Path("mine/last.ckpt").touch()
    assert "would resume tiny" in dry_run(stripes, *begin).stdout


@pytest.mark.parametrize(
    ("now", "resumes"),
    [
        (["--ranks", "2", "--batch-size", "8"], True),
        (["--batch-size", "16"], True),
        (["--ranks", "4", "--batch-size", "4"], True),
        (["--batch-size", "8"], False),
        (["--ranks", "4", "--batch-size", "8"], False),
    ],
)
@pytest.mark.parametrize("started_by", ["--ranks", "an msrun of the user's own"])
def test_run_of_two_ranks_resumes_on_any_number_with_the_same_global_batch(
    started_by: str, now: list[str], resumes: bool, stripes: Path
) -> None:
    begin = ["--ranks", "2"] if started_by == "--ranks" else []
    config = json.loads(dry_run(stripes, "--out", "mine", "--batch-size", "8", *begin, "--json").stdout)["config"]
    Path("mine").mkdir()
    Path("mine/config.json").write_text(json.dumps(config))
    ranks = replace(start(), decisions=(Decision("ranks", "default", "2", ""),))
    Path("mine/starts.jsonl").write_text(json.dumps(asdict(ranks)) + "\n")
    Path("mine/last.ckpt").touch()
    error = dry_run(stripes, "--out", "mine", *now).exception
    assert (error is None) is resumes
    assert resumes or "--batch-size 8 on 2 ranks" in str(error)


def test_dry_run_warns_of_an_inexact_resume(stripes: Path) -> None:
    begin = ["--out", "mine"]
    config = json.loads(dry_run(stripes, *begin, "--json").stdout)["config"]
    Path("mine").mkdir()
    Path("mine/config.json").write_text(json.dumps(config))
    workers = Decision("workers", "default", "1", "one per core")
    other = replace(start(), software={"mindspore": "1.0.0"}, decisions=(workers,))
    Path("mine/starts.jsonl").write_text(json.dumps(asdict(other)) + "\n")
    assert "warning" not in dry_run(stripes, *begin).stdout
    Path("mine/last.ckpt").touch()
    [warning] = json.loads(dry_run(stripes, *begin, "--json").stdout)["warnings"]
    assert warning.startswith("this run was started on MindSpore 1.0.0, now it is ")
    assert f"\nwarning: {warning}\n" in dry_run(stripes, *begin).stdout


@pytest.mark.parametrize("damage", ["missing", "cut", "index"])
def test_run_rejects_a_damaged_dataset_before_mindspore_is_imported(damage: str, stripes: Path, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    if damage != "missing":
        shutil.copytree(stripes, folder)
        path = folder / ("train.mindrecord0" if damage == "cut" else "val.mindrecord0.db")
        path.write_bytes(path.read_bytes()[:-1] + (b"" if damage == "cut" else b"\xff"))
    code = (
        "import sys; sys.modules['mindspore'] = None\n"
        f"sys.argv = ['trainer', 'run', {str(folder)!r}, '--out', {str(tmp_path / 'out')!r}]\n"
        "from trainer.cli.commands import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "mindspore" not in done.stderr.lower().replace(str(folder), "")
    assert done.returncode == (2 if damage == "missing" else 3)
    assert done.stderr.startswith("Error: ")
