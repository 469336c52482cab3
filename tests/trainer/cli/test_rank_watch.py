import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from trainer.cli.launch import Job
from trainer.cli.rank_watch import RankState, RankWatch, slowest
from trainer.config import RunConfig
from trainer.device import rank
from trainer.device.heartbeat import COMPILING, DATA, FIELDS, PHASES, SAVE, STARTING, STEP, Heartbeat, beat, read_beat
from trainer.errors import Busy, WrongUsage

NAMES = ["rank 0", "rank 1", "rank 2"]


def state(number: int, phase: str, step: int, process: str = "S", ended: bool = False) -> RankState:
    return RankState(number, f"h{number}", process, Heartbeat(phase, step, 1.0, 1.0, 3.0), ended)


@pytest.mark.parametrize(
    ("states", "named"),
    [
        ([state(0, STEP, 5), state(1, DATA, 5), state(2, STEP, 5)], "rank 1 on h1 "),
        ([state(0, STEP, 5), state(1, SAVE, 4), state(2, DATA, 5)], "rank 1 on h1 "),
        ([state(0, STEP, 5, process="T"), state(1, STEP, 5), state(2, STEP, 5)], "rank 0 on h0 "),
        ([state(0, STEP, 5, process="", ended=True), state(1, STEP, 4), state(2, STEP, 5)], "rank 1 on h1 "),
        ([state(0, STEP, 5), state(1, STEP, 5), state(2, STEP, 5)], "no rank is behind"),
    ],
    ids=["waits for data", "in the step before", "stopped", "one gave up", "all alike"],
)
def test_rank_that_holds_up_the_others_is_named(states: list[RankState], named: str) -> None:
    said = slowest(states)
    assert said.startswith(named)
    assert all(name in said for name in NAMES)
    assert "data wait 25%" in said


def test_beat_is_read_by_the_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rank.FOLDER, str(tmp_path))
    monkeypatch.setenv("MS_ROLE", rank.WORKER)
    monkeypatch.setenv("MS_NODE_ID", "3")
    assert read_beat(tmp_path, 3) is None
    for phase, step in ((STARTING, 0), (STEP, 7)):
        beat(phase, step, (1.5, 2.5))
        found = read_beat(tmp_path, 3)
        assert found is not None
        assert (found.phase, found.step, found.wait_s, found.work_s) == (phase, step, 1.5, 2.5)


def watched(folder: Path, pids: list[int], at: float) -> RankWatch:
    for number, pid in enumerate(pids):
        (folder / f"pid_{number}").write_text(str(pid))
        (folder / f"beat_{number}").write_bytes(FIELDS.pack(PHASES.index(STEP), 4, at, 0.0, 0.0))
    return RankWatch(folder, range(len(pids)), limit_s=60.0)


def test_ranks_without_progress_are_a_problem_only_after_the_limit(tmp_path: Path) -> None:
    own = os.getpid()
    assert watched(tmp_path, [own, own], time.monotonic()).problem() is None
    assert isinstance(watched(tmp_path, [own, own], time.monotonic() - 61).problem(), Busy)
    for phase in (STARTING, COMPILING):
        (tmp_path / "beat_1").write_bytes(FIELDS.pack(PHASES.index(phase), 1, time.monotonic() - 61, 0.0, 0.0))
        assert RankWatch(tmp_path, range(2), 60.0).problem() is None


@pytest.mark.parametrize(("number", "again"), [(signal.SIGKILL, True), (signal.SIGSEGV, False)])
def test_rank_that_a_signal_ended_may_run_again_unless_it_crashed(
    number: signal.Signals, again: bool, tmp_path: Path
) -> None:
    dead = subprocess.Popen(["sleep", "60"])
    dead.send_signal(number)
    dead.wait()
    log = f"Worker process {dead.pid} exit with exception. Error code: {-number}."
    (tmp_path / "msrun.log").write_text(log)
    problem = watched(tmp_path, [os.getpid(), dead.pid], time.monotonic()).problem()
    assert isinstance(problem, Busy) is again
    assert str(problem).startswith("rank 1 on ")
    assert number.name in str(problem)


NODES = RunConfig("set", ranks=4, nodes=2, node_rank=1, master="h0:8118", out="runs/first")


def test_ranks_of_a_host_are_its_share() -> None:
    assert Job.of(NODES).local == range(2, 4)
    assert Job.of(RunConfig("set", ranks=4)).local == range(4)


@pytest.mark.parametrize(
    ("wrong", "option"),
    [
        ({"node_rank": None}, "--node-rank"),
        ({"master": None}, "--master"),
        ({"out": None}, "--out"),
        ({"ranks": 3}, "--ranks 3"),
        ({"node_rank": 2}, "--node-rank 2"),
        ({"master": "h0"}, "--master h0"),
        ({"nodes": None}, "--nodes"),
    ],
)
def test_incomplete_options_of_several_hosts_are_rejected(wrong: dict[str, object], option: str) -> None:
    with pytest.raises(WrongUsage, match=option):
        Job.of(RunConfig(**{**vars(NODES), **wrong}))
