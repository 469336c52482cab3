"""Which losses of the decode child are an image's fault, and which are the machine's."""

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
from dataprep.build.decode_check.supervisor import Prover, ShardFiles, Verdict
from dataprep.errors import DataprepError, TryLater
from schemas.record import load_schema
from tests.dataprep.conftest import Files, digests, picture, shard

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

Prove = Callable[..., Verdict]


@pytest.fixture
def prove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prove:
    """Proves a shard by children that act as given."""
    (tmp_path / "child.py").write_text(CHILD)
    (tmp_path / "started").mkdir()
    monkeypatch.setattr(child_process, "START_S", 5.0)

    def run(*acts: str) -> Verdict:
        (tmp_path / "acts.json").write_text(json.dumps(acts))
        command = (sys.executable, str(tmp_path / "child.py"), str(tmp_path))
        files = ShardFiles(tmp_path / "shard", ROWS, tmp_path / "rows")
        with Prover(load_schema("classification"), tmp_path, "strip", 2, 0.5, command=command) as prover:
            return prover.prove(files)

    return run


def requests(tmp_path: Path) -> list[tuple[int, dict[str, Any]]]:
    return [tuple(json.loads(line)) for line in (tmp_path / "requests").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "act",
    ["kill@start", "kill@3", "crash@3", "stop@3", "silent@3", "abort@3", "abort@start", "crash@start", "refused@3"],
)
def test_a_loss_that_does_not_come_again_is_no_image_s_fault(prove: Prove, act: str) -> None:
    assert prove(act, "fine") == Verdict()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "reason"), [("crash@3", "decoder_crash"), ("silent@3", "decoder_hang")], ids=["crash", "silent"]
)
def test_an_image_that_ends_or_silences_two_fresh_children_alone_is_at_fault(
    prove: Prove, tmp_path: Path, act: str, reason: str
) -> None:
    found = prove(act, act, act, act, "fine").faults
    assert [(fault.row, fault.reason) for fault in found] == [(3, reason)]
    alone = [number for number, request in requests(tmp_path) if request["last"] == 3]
    assert alone == [2, 3]


@pytest.mark.slow
@pytest.mark.parametrize(
    "act", ["kill@start", "crash@start", "kill@3", "stop@3", "abort@3", "refused@3", "failed@bad allocation"]
)
def test_the_third_loss_that_no_image_explains_ends_the_job_for_now(prove: Prove, tmp_path: Path, act: str) -> None:
    with pytest.raises(TryLater, match="was lost 3 times over shard, and no image is to blame"):
        prove(act)
    # Some losses are counted before the next child is started.
    assert len(os.listdir(tmp_path / "started")) in (3, 4)


def test_a_trial_that_is_killed_counts_neither_way(prove: Prove) -> None:
    assert [fault.row for fault in prove("crash@3", "crash@3", "kill@3", "crash@3", "crash@3", "fine").faults] == [3]


def test_a_row_that_ends_children_only_behind_others_is_no_fault_but_ends_the_job(prove: Prove) -> None:
    with pytest.raises(TryLater, match="signal 11"):
        prove("crash@behind")


def test_a_child_that_the_kernel_does_not_start_for_want_of_memory_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(child_process.subprocess, "Popen", refuse)
    with pytest.raises(TryLater, match="cannot be started"):
        Prover(load_schema("classification"), tmp_path, "strip", 2, 0.5)


def test_short_of_memory_one_thread_decodes(prove: Prove, tmp_path: Path) -> None:
    prove("failed@std::bad_alloc", "fine")
    assert [request["threads"] for _, request in requests(tmp_path)] == [2, 1]


def test_a_failure_that_comes_again_and_that_no_image_explains_is_said(prove: Prove) -> None:
    with pytest.raises(DataprepError, match=r"cannot read shard shard \(an odd page\)"):
        prove("failed@an odd page")


def test_time_in_which_the_job_itself_was_stopped_is_no_silence(
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
def test_a_child_that_is_stopped_while_it_starts_is_not_waited_for_to_the_end(
    prove: Prove, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "START_S", 300.0)
    monkeypatch.setattr(child_process, "STOPPED_S", 1.0)
    assert prove("stop@start", "fine") == Verdict()
    with pytest.raises(TryLater, match="the decode process was stopped, or waited for a disk, for 1 s"):
        prove("stop@start")


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
def test_memory_that_is_refused_is_known_by_its_words(text: str) -> None:
    assert is_out_of_memory(text)


@pytest.mark.parametrize("text", ["Decode: invalid image", "map operation: [Decode] failed. Decode: decode failed"])
def test_an_error_about_an_image_is_not_about_memory(text: str) -> None:
    assert not is_out_of_memory(text)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, 3])
def test_the_real_child_killed_again_and_again_gives_the_undisturbed_bytes_or_no_set(
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
