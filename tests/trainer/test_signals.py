import signal
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.process.stop_signals import stop_signals
from trainer.errors import Interrupted
from trainer.signals import StopSignals


def in_a_process(body: str) -> "subprocess.CompletedProcess[str]":
    """Run code in which `send(signal)` returns when the signal has been noted."""
    code = (
        "import os, signal, time\nfrom trainer.signals import StopSignals\n"
        "def send(number):\n    os.kill(os.getpid(), number)\n    while stop.signum is None: time.sleep(0.001)\n" + body
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGXCPU"])
def test_first_signal_is_recorded_whatever_the_handlers(name: str) -> None:
    done = in_a_process(
        "with StopSignals(print) as stop:\n"
        "    stop.check()\n"
        "    signal.signal(signal.SIGINT, lambda number, frame: os.kill(os.getpid(), signal.SIGTERM))\n"
        f"    send(signal.{name})\n"
        "print(signal.Signals(stop.signum).name)\n"
    )
    assert done.stdout.splitlines() == [f"{name}: stopping after this step; repeat to stop at once", name]
    assert done.returncode == 0


def test_second_signal_ends_the_process_at_once() -> None:
    done = in_a_process(
        "with StopSignals() as stop:\n"
        "    send(signal.SIGINT)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    time.sleep(30)\n"
    )
    assert done.returncode == 143


def test_recorded_signal_raises_interrupted() -> None:
    stop = StopSignals()
    stop.check()
    stop.signum = signal.SIGTERM
    with pytest.raises(Interrupted, match="stopped by SIGTERM"):
        stop.check()


def test_interrupted_names_the_way_to_resume() -> None:
    way = "resume with the same command and --resume"
    saved = str(Interrupted(signal.SIGTERM, Path("mine/last.ckpt")))
    assert saved == f"stopped by SIGTERM; the last checkpoint is mine/last.ckpt; {way}"
    assert str(Interrupted(signal.SIGTERM, None)) == "stopped by SIGTERM"


def test_signals_are_unblocked_afterwards() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with StopSignals():
        assert set(stop_signals()) <= signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
