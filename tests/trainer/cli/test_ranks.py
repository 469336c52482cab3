"""Runs of several ranks that are killed, stopped or stalled: they end at once and resume to the same bits."""

import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import mindspore
import pytest

from tests.trainer.processes import finish, start
from tests.trainer.run_contents import contents

pytestmark = pytest.mark.slow

# BatchNorm, whose running averages differ per rank between two evaluations; compiles in a second.
NET = """
from mindspore import nn

def make(num_classes):
    layers = [nn.Conv2d(3, 4, 4, stride=4, pad_mode="valid"), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()]
    return nn.SequentialCell([*layers, nn.Dense(4 * 8 * 8, num_classes)])
"""
# Three steps per epoch, two epochs, a checkpoint after each step; averages, random crops and a loss scale.
RUN = ["--device", "CPU", "--workers", "1", "--image-size", "32", "--model", "quick_net:make", "--epochs", "2"]
RUN += ["--ranks", "2", "--batch-size", "8", "--save-every", "1", "--ema", "0.9", "--amp-level", "O2"]
AGAIN, KILLED, TERMINATED = 75, -signal.SIGKILL, 128 + signal.SIGTERM
ALL = os.environ.get("TRAINER_TEST_ALL_KILLS")  # the whole matrix takes two minutes


@dataclass(frozen=True)
class Ending:
    """A process of the run gets `signum` at `place`, and every launcher ends with `code`."""

    place: str
    code: int
    signum: int = signal.SIGKILL
    hosts: int = 1


ONE_OF_EACH = (
    Ending("step:2@launcher", KILLED),
    Ending("evaluate:3@1", AGAIN, hosts=2),
    Ending("step:4@1", AGAIN, signal.SIGSTOP),
    Ending("save:5@0", AGAIN),
    Ending("", 0),
)
MATRIX = {
    victim: (*(Ending(f"{place}@{victim}", code) for place in ("step:2", "evaluate:3", "save:5")), Ending("", 0))
    for victim, code in (("launcher", KILLED), ("0", AGAIN), ("1", AGAIN))
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "quick_net.py").write_text(NET)
    (tmp_path / "tmp").mkdir()
    return tmp_path


def endings(run: Path, stripes: Path, ways: tuple[Ending, ...]) -> list[str]:
    """Run until each of `ways`, one after the other; return what the first launcher has printed each time."""
    return [end(ending, stripes, run) for ending in ways]


def end(ending: Ending, stripes: Path, run: Path) -> str:
    """Run until `ending`; return what the first launcher has printed on stderr."""
    options = ["--rank-timeout", "2"] if ending.signum == signal.SIGSTOP else []
    command = ["run", stripes, *RUN, *options, "--out", run.name]
    if ending.hosts > 1:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            master = f"127.0.0.1:{free.getsockname()[1]}"
        command += ["--nodes", ending.hosts, "--master", master]
    nodes = [["--node-rank", node] for node in range(ending.hosts)] if ending.hosts > 1 else [[]]
    more = {"TRAINER_KILL_SIGNAL": str(int(ending.signum)), "TMPDIR": str(run.parent / "tmp")}
    launchers = [start(*command, *node, cwd=run.parent, kill_at=ending.place, **more) for node in nodes]
    ends = [finish(launcher) for launcher in launchers]
    assert [code for code, _, _ in ends] == [ending.code] * ending.hosts, (ending, [err for _, _, err in ends])
    return ends[0][2]


def test_run_of_two_ranks_that_ends_in_every_way_resumes_to_the_same_bits(stripes: Path, home: Path) -> None:
    with ThreadPoolExecutor() as threads:
        undisturbed = threads.submit(end, Ending("", 0, hosts=2), stripes, home / "whole")
        said = endings(home / "ended", stripes, ONE_OF_EACH[:1])
        of_rank_1 = [name for name in mindspore.load_checkpoint(str(home / "ended" / "last.ckpt")) if "rank:1:" in name]
        said += endings(home / "ended", stripes, ONE_OF_EACH[1:])
        said.append(undisturbed.result())
    assert of_rank_1
    assert all(name.endswith(("moving_mean", "moving_variance")) for name in of_rank_1), "all else is equal"
    assert f"rank 1 on {socket.gethostname()} holds up the others" in said[2]
    assert not [text for text in said if "Traceback" in text]
    assert contents(home / "ended") == contents(home / "whole")
    assert not list(home.glob(".*")), "the notes of the hosts"


@pytest.mark.skipif(not ALL, reason="TRAINER_TEST_ALL_KILLS is not set")
@pytest.mark.parametrize("victim", MATRIX)
def test_run_killed_anywhere_resumes_to_the_same_bits(victim: str, stripes: Path, home: Path) -> None:
    endings(home / "whole", stripes, (Ending("", 0),))
    endings(home / "killed", stripes, MATRIX[victim])
    assert contents(home / "killed") == contents(home / "whole")
