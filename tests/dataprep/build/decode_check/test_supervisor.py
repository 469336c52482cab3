"""Losses of the decode child that are caused by an image, and losses caused by the machine."""

import errno
import json
import os
import selectors
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataprep.build.decode_check import child_process
from dataprep.build.decode_check.child_process import DecoderChild, is_out_of_memory
from dataprep.build.decode_check.supervisor import DecodeChecker, Findings, ShardFiles
from dataprep.errors import DataprepError, TryLater
from schemas.record import load_schema
from tests.dataprep.examples import Files, digests, picture, shard

ROWS = 8
# Child number n does what the nth of the given words says, the last of them also all that follow. `WHAT@ROW` is done
# over a row, when it is among those that are asked for.
CHILD = """
import json, os, signal, sys
folder = sys.argv[1]
acts = json.load(open(f"{folder}/acts.json"))
number = len(os.listdir(f"{folder}/started"))
open(f"{folder}/started/{number}", "w").close()
what, _, at = acts[min(number, len(acts) - 1)].partition("@")
def say(**values): print(json.dumps(values), flush=True)
def act(row):
    if what == "kill": os.kill(os.getpid(), signal.SIGKILL)
    if what == "crash": os.kill(os.getpid(), signal.SIGSEGV)
    if what == "stop": os.kill(os.getpid(), signal.SIGSTOP)
    if what == "silent": signal.pause()
    if what == "abort":
        print("terminate called after throwing an instance of 'std::bad_alloc'", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGABRT)
    if what == "refused": say(bad=row, detail="Unexpected error. Insufficient memory (Failed to allocate 9 bytes)")
if at == "start": act(-1)
say(ready=True)
for line in sys.stdin:
    request = json.loads(line)
    with open(f"{folder}/requests", "a") as log: print(json.dumps([number, request]), file=log)
    last = request["last"] if request["last"] >= 0 else 7
    for row in range(request["first"], last + 1):
        say(row=row)
        if at == str(row) or (at == "behind" and request["first"] < 3 == row): act(row)
    if what == "failed" and not request["one_by_one"]: say(failed=at)
    say(done=True)
"""

Check = Callable[..., Findings]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Run the decode check with children that act as given."""
    (tmp_path / "child.py").write_text(CHILD)
    (tmp_path / "started").mkdir()
    monkeypatch.setattr(child_process, "START_S", 5.0)

    def run(*acts: str) -> Findings:
        (tmp_path / "acts.json").write_text(json.dumps(acts))
        command = (sys.executable, str(tmp_path / "child.py"), str(tmp_path))
        files = ShardFiles(tmp_path / "shard", ROWS, tmp_path / "rows")
        with DecodeChecker(load_schema("classification"), tmp_path, "strip", 2, 0.5, command=command) as checker:
            return checker.check(files)

    return run


def requests(tmp_path: Path) -> list[tuple[int, dict[str, Any]]]:
    return [tuple(json.loads(line)) for line in (tmp_path / "requests").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "act",
    ["kill@start", "kill@3", "crash@3", "stop@3", "silent@3", "abort@3", "abort@start", "crash@start", "refused@3"],
)
def test_child_loss_that_is_not_repeated_rejects_no_image(check: Check, act: str) -> None:
    assert check(act, "fine") == Findings()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "reason"), [("crash@3", "decoder_crash"), ("silent@3", "decoder_hang")], ids=["crash", "silent"]
)
def test_image_that_alone_crashes_or_hangs_two_new_children_is_rejected(
    check: Check, tmp_path: Path, act: str, reason: str
) -> None:
    found = check(act, act, act, act, "fine").faults
    assert [(fault.row, fault.reason) for fault in found] == [(3, reason)]
    alone = [number for number, request in requests(tmp_path) if request["last"] == 3]
    assert alone == [2, 3]


@pytest.mark.slow
@pytest.mark.parametrize(
    "act", ["kill@start", "crash@start", "kill@3", "stop@3", "abort@3", "refused@3", "failed@bad allocation"]
)
def test_third_unexplained_child_loss_ends_the_job_with_exit_code_75(check: Check, tmp_path: Path, act: str) -> None:
    with pytest.raises(TryLater, match="ended unexpectedly 3 times on shard, and no image is the cause"):
        check(act)
    # Some losses are counted before the next child is started.
    assert len(os.listdir(tmp_path / "started")) in (3, 4)


def test_killed_trial_does_not_count(check: Check) -> None:
    assert [fault.row for fault in check("crash@3", "crash@3", "kill@3", "crash@3", "crash@3", "fine").faults] == [3]


def test_row_that_crashes_only_after_others_is_not_rejected_and_ends_the_job(check: Check) -> None:
    with pytest.raises(TryLater, match="signal 11"):
        check("crash@behind")


def test_child_that_cannot_start_for_lack_of_memory_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(child_process.subprocess, "Popen", refuse)
    with pytest.raises(TryLater, match="cannot be started"):
        DecodeChecker(load_schema("classification"), tmp_path, "strip", 2, 0.5)


def test_one_thread_decodes_when_memory_is_short(check: Check, tmp_path: Path) -> None:
    check("failed@std::bad_alloc", "fine")
    assert [request["threads"] for _, request in requests(tmp_path)] == [2, 1]


def test_repeated_failure_without_a_faulty_image_is_reported(check: Check) -> None:
    with pytest.raises(DataprepError, match=r"cannot read shard shard \(an odd page\)"):
        check("failed@an odd page")


def test_time_in_which_the_job_was_stopped_does_not_count_as_a_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A selector that finds nothing in many slices, as after SIGCONT, is asked again before the child is given up."""
    slices: list[float] = []

    class Selector:
        def register(self, *_: Any) -> None:
            pass

        def select(self, seconds: float) -> list[int]:
            slices.append(seconds)
            return [1] if len(slices) > 60 else []

        def close(self) -> None:
            pass

    monkeypatch.setattr(selectors, "DefaultSelector", Selector)
    monkeypatch.setattr(child_process, "START_S", 60.0)
    answers = "print('{}', flush=True); input(); print('{\"done\": true}')"
    child = DecoderChild(tmp_path, (sys.executable, "-c", answers))
    assert list(child.ask({}, 60.0)) == []
    child.end()
    assert slices == [1.0] * 60 + [0, 1.0]


@pytest.mark.slow
def test_child_that_is_stopped_while_it_starts_is_given_up_early(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "START_S", 300.0)
    monkeypatch.setattr(child_process, "STOPPED_S", 1.0)
    assert check("stop@start", "fine") == Findings()
    with pytest.raises(TryLater, match="the decode process was stopped, or waited for a disk, for 1 s"):
        check("stop@start")


@pytest.mark.parametrize(
    "text",
    [
        "std::bad_alloc",
        "Unexpected error. bad allocation",
        "Decode: Unexpected error. Failed to allocate memory",
        "Insufficient memory (case 4)",
        "OpenCV(4.1) error: (-4:Insufficient memory) Failed to allocate 9 bytes in function 'OutOfMemoryError'",
        "ImportError: libx.so: failed to map segment from shared object",
        "OSError: [Errno 12] Cannot allocate memory",
        "RuntimeError: can't start new thread",
        "MemoryError",
    ],
)
def test_message_about_memory_is_recognized(text: str) -> None:
    assert is_out_of_memory(text)


@pytest.mark.parametrize("text", ["Decode: invalid image", "map operation: [Decode] failed. Decode: decode failed"])
def test_image_error_is_not_about_memory(text: str) -> None:
    assert not is_out_of_memory(text)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, 3])
def test_real_child_killed_repeatedly_gives_the_same_bytes_or_no_dataset(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    source = files({f"a/{number}.jpg": picture(number) for number in range(20)})
    original = DecoderChild.ask
    asked: list[int] = []

    def ask(self: DecoderChild, *arguments: Any) -> Any:
        asked.append(1)
        if len(asked) == 2:
            self._await_start()  # the others are killed while they start
        if len(asked) <= kills:
            os.kill(self._process.pid, signal.SIGKILL)
        yield from original(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(DecoderChild, "ask", ask)
        if kills == 3:
            with pytest.raises(TryLater, match=r"was killed \(signal 9\)"):
                shard(source, tmp_path / "out", prove="decode", val=0.0)
            assert not (tmp_path / "out" / "dataset.json").exists()
        shard(source, tmp_path / "out", prove="decode", val=0.0)
    assert len(asked) == kills + 1
    shard(source, tmp_path / "calm", prove="decode", val=0.0)
    assert digests(tmp_path / "out") == digests(tmp_path / "calm")
