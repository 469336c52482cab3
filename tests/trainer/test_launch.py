import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainer import launch
from trainer.errors import TrainerError
from trainer.signals import StopSignals


class Msrun:
    """Stands for the process of msrun."""

    pid = 0

    def __init__(self, returncode: int | None = None) -> None:
        self.returncode = returncode

    def poll(self) -> int | None:
        return self.returncode


def over(folder: Path, msrun: Msrun | None = None) -> str:
    return launch._over(folder, 2, msrun or Msrun())  # type: ignore[arg-type]


@pytest.fixture
def gone() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "GRACE_S", 0.0)


def test_run_goes_on_while_all_ranks_live_and_is_over_when_rank_0_ends(tmp_path: Path) -> None:
    assert over(tmp_path) == ""
    (tmp_path / "pid_0").write_text(str(os.getpid()))
    assert over(tmp_path) == ""
    (tmp_path / "end_0").write_text("0")
    assert over(tmp_path) == launch.RANK_0_ENDED


def test_rank_that_died_is_named_with_the_last_lines_of_its_log(tmp_path: Path, gone: int) -> None:
    (tmp_path / "pid_1").write_text(str(gone))
    (tmp_path / "worker_1.log").write_text("".join(f"line {i}\n" for i in range(99)))
    (tmp_path / "msrun.log").write_text(f"x Worker process {gone} exit with exception. Error code: -9.\n")
    said = over(tmp_path)
    assert said.startswith("rank 1 died (SIGKILL); the last lines of its log:\n  line 87\n")
    assert "line 98" in said
    # That rank 0 then fails in the reduction is not what the user must see.
    (tmp_path / "end_0").write_text("1")
    with pytest.raises(TrainerError, match="rank 1 died"):
        launch._judge(tmp_path, over(tmp_path), StopSignals())


def test_rank_that_failed_alone_is_named_and_rank_0_speaks_for_itself(tmp_path: Path) -> None:
    (tmp_path / "end_1").write_text("3")
    (tmp_path / "worker_1.log").write_text("Error: this host lacks the set\n")
    assert "Error: this host lacks the set" in over(tmp_path)
    (tmp_path / "end_0").write_text("3")
    assert launch._judge(tmp_path, over(tmp_path), StopSignals()) == launch.Ended(3, "")
    assert not tmp_path.exists()


def test_msrun_that_fails_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "msrun.log").write_text("No module named 'psutil'\n")
    assert over(tmp_path, Msrun(1)) == "msrun ended with exit code 1:\n  No module named 'psutil'\n"


def test_result_and_logs_of_a_run_that_is_done_are_kept(tmp_path: Path) -> None:
    notes, run = tmp_path / "notes", tmp_path / "run"
    notes.mkdir()
    run.mkdir()
    (notes / "end_0").write_text("0")
    (notes / "result_0").write_text(json.dumps({"text": "val accuracy 99 %", "run": str(run)}))
    (notes / "worker_0.log").write_text("said\n")
    assert launch._judge(notes, over(notes), StopSignals()) == launch.Ended(0, "val accuracy 99 %")
    assert (run / "ranks" / "worker_0.log").read_text() == "said\n"
    assert not notes.exists()


def test_log_is_passed_on_by_whole_lines_without_mindspores_own(tmp_path: Path) -> None:
    stream, log = io.StringIO(), tmp_path / "worker_0.log"
    follow = launch.Follow(log, stream)
    follow.pass_on()
    log.write_text("epoch 1\n[INFO] DISTRIBUTED(1) x\nepo")
    follow.pass_on()
    assert stream.getvalue() == "epoch 1\n"
    log.write_text("epoch 1\n[INFO] DISTRIBUTED(1) x\nepoch 2\n")
    follow.pass_on()
    assert stream.getvalue() == "epoch 1\nepoch 2\n"


def test_options_name_a_free_port_and_fit_the_installed_msrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mindspore.parallel.cluster.run import get_args

    monkeypatch.setattr(sys, "argv", ["msrun", *launch.msrun_options(2, tmp_path), "rank.py"])
    arguments = get_args()
    assert (arguments.worker_num, arguments.local_worker_num, arguments.join) == (2, 2, True)
    assert 1024 < arguments.master_port < 65536
    assert (arguments.log_dir, arguments.task_script) == (str(tmp_path), "rank.py")
