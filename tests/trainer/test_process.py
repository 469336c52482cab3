"""What only a process of its own can show: litter, noise, exit codes after signals."""

import json
import os
import random
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.process.host import instruction_set, usable_cores
from tests.trainer.examples import RUN_FILES
from tests.trainer.processes import QUICK, finish, start
from tests.trainer.run_contents import contents

pytestmark = pytest.mark.slow


def test_run_and_evaluation_agree_and_leave_no_extra_files_or_output(stripes: Path, tmp_path: Path) -> None:
    # O1 is the level at which MindSpore leaves the most: rewritten_network/ and rank_0/.
    level = ["--amp-level", "O1", "--json"]
    code, out, err = finish(start("run", stripes, *QUICK, "--epochs", "1", "--out", "mine", *level, cwd=tmp_path))
    assert code == 0, err
    assert os.listdir(tmp_path) == ["mine"]
    assert sorted(os.listdir(tmp_path / "mine")) == RUN_FILES
    assert json.loads(out)["run"] == str(tmp_path / "mine")
    told = err.splitlines()
    assert told[0].split() == ["setting", "requested", "in", "effect", "why"]
    assert [line[:10] for line in told[-3:]] == ["plain defa", "run folder", "epoch 1/1 "]

    code, out, err = finish(start("eval", "mine", stripes, "--device", "CPU", *level, cwd=tmp_path))
    assert code == 0, err
    found, metrics = json.loads(out), json.loads((tmp_path / "mine" / "metrics.jsonl").read_text())
    assert (found["rows"], found["accuracy"]) == (13, metrics["val_accuracy"])
    assert found["loss"] == pytest.approx(metrics["val_loss"], rel=1e-3)
    assert os.listdir(tmp_path) == ["mine"]
    assert sorted(os.listdir(tmp_path / "mine")) == sorted([*RUN_FILES, "eval"])
    told = err.splitlines()
    assert {re.split(r"\s{2,}", line)[0] for line in told[1:-2]} <= {"device", "CPU kernels", "amp level"}, err
    assert told[-2].startswith("plain defaults, shown with -v")
    assert told[-1] == "written to mine/eval/val; use 'trainer report mine' to make a page of it"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_saves_and_exits_by_its_number(
    number: signal.Signals, code: int, make_set: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make_set({"train": 48})
    process = start("run", folder, *QUICK, "--epochs", "10000", "--log-every", "1", "--out", "mine", cwd=tmp_path)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("epoch 2/"):
            process.send_signal(number)
            break
    got, _, err = finish(process)
    assert got == code, err
    assert f"Error: stopped by {number.name}; the last checkpoint is {tmp_path / 'mine' / 'last.ckpt'}" in err
    assert "Traceback" not in err
    assert sorted(os.listdir(tmp_path / "mine")) == [name for name in RUN_FILES if name != "result.json"]


# All that holds state: averages, summed gradients, a loss scale that overflows at first, the type of each cell.
WHOLE = ["--accumulate", "2", "--clip-norm", "1", "--ema", "0.9", "--amp-level", "O2", "--keep-fp32", "head"]


def test_run_killed_at_a_random_step_resumes_to_the_bytes_of_an_uninterrupted_run(
    stripes: Path, tmp_path: Path
) -> None:
    step = random.randint(2, 8)  # four steps an epoch with what QUICK says, so in any place of them
    command = ["run", stripes, *QUICK, *WHOLE, "--batch-size", "12", "--epochs", "2", "--save-every", "1", "--out"]
    assert finish(start(*command, "whole", cwd=tmp_path))[0] == 0
    assert finish(start(*command, "killed", cwd=tmp_path, kill_at=f"step:{step}"))[0] == -signal.SIGKILL
    code, _, err = finish(start(*command, "killed", cwd=tmp_path))
    assert code == 0, err
    assert f"resuming after step {step - 1}" in err
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole"), f"killed at step {step}"
    assert "is complete; nothing is left to do\n" in finish(start(*command, "killed", cwd=tmp_path))[2]


@pytest.mark.skipif(usable_cores() < 2, reason="needs two cores, in the affinity and in the control group")
def test_run_started_on_two_cores_keeps_its_workers_on_one_core_and_warns_of_different_bits(
    stripes: Path, tmp_path: Path
) -> None:
    # Random crops and flips, and the default number of workers: one per core.
    command = ["run", stripes, *[each for each in QUICK if each not in ("--workers", "1")], "--recipe", "small"]
    command += ["--epochs", "1", "--save-every", "1", "--out"]
    two = [*command, "killed", "--workers", "2"]
    cores = sorted(os.sched_getaffinity(0))[:2]
    assert finish(start(*command, "whole", "--workers", "2", cwd=tmp_path, cores=cores))[0] == 0
    assert finish(start(*two, cwd=tmp_path, cores=cores, kill_at="step:2"))[0] == -signal.SIGKILL
    shutil.copytree(tmp_path / "killed", tmp_path / "other")
    code, _, err = finish(start(*command, "killed", cwd=tmp_path, cores=cores[:1]))
    assert code == 0, err
    assert re.search(r"^workers +default +2 +as at the start of this run", err, re.MULTILINE)
    [warning] = [line for line in err.splitlines() if line.startswith("warning: ")]
    assert (
        "this run was started on 2 cores, this process may use 1; the weights will differ in the last bits" in warning
    )
    losses = [json.loads((tmp_path / run / "metrics.jsonl").read_text())["loss"] for run in ("killed", "whole")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5), "the same images, crops and flips"

    code, _, err = finish(start(*command, "other", "--workers", "1", cwd=tmp_path, cores=cores))
    assert code == 0, err
    assert "warning: this run was started with 2 workers, but --workers 1 gives 1; use --workers 2" in err
    assert contents(tmp_path / "other") != contents(tmp_path / "whole")


@pytest.mark.skipif(instruction_set() is None, reason="oneDNN has these kernels on x86 only")
def test_run_resumes_with_its_first_cpu_kernels_or_warns_of_the_difference(stripes: Path, tmp_path: Path) -> None:
    command = ["run", stripes, *QUICK, "--epochs", "1", "--save-every", "1", "--out"]
    assert finish(start(*command, "whole", cwd=tmp_path, cap="SSE41"))[0] == 0
    assert finish(start(*command, "killed", cwd=tmp_path, kill_at="step:2", cap="SSE41"))[0] == -signal.SIGKILL
    shutil.copytree(tmp_path / "killed", tmp_path / "other")
    code, _, err = finish(start(*command, "killed", cwd=tmp_path))
    assert code == 0, err
    assert "warning" not in err
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    if instruction_set() != "SSE41":
        code, _, err = finish(start(*command, "other", cwd=tmp_path, cap="AVX"))
        assert code == 0, err
        assert "this run was started with CPU kernels 'SSE41', but ONEDNN_MAX_CPU_ISA=AVX selects 'AVX'" in err
        assert contents(tmp_path / "other") != contents(tmp_path / "whole")


def test_undecodable_image_gives_one_sentence_and_no_extra_files(make_set: Callable[..., Path], tmp_path: Path) -> None:
    folder = make_set({"train": 20}, last_image=b"\x89PNG\r\n\x1a\nno more of it")
    code, out, err = finish(start("run", folder, *QUICK, "--epochs", "2", "--out", "mine", cwd=tmp_path))
    assert (code, out) == (1, "")
    last = err.splitlines()[-1]
    assert last.startswith(f"Error: reading {folder} failed: ")
    assert "map operation: [Decode] failed." in last
    assert "the image is train/19.jpg; 'dataprep verify --decode' finds all such images" in last
    assert "Traceback" not in err
    assert os.listdir(tmp_path) == ["set"], "a run of which nothing came leaves nothing"
