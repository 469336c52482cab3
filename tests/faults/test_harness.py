"""The fault harness itself: it counts, disturbs and kills what it is told to, in child processes too."""

import signal
import sys
from pathlib import Path

import pytest

from tests.faults.harness import Fault, Faults, NoCompiler, complaints, copy

# Writes a file, has a child process write another, and says what happened to each call.
WRITES = """
import os, subprocess, sys
folder = sys.argv[1]
def write(name):
    try:
        os.mkdir(os.path.join(folder, name))
        file = os.open(os.path.join(folder, name, "file"), os.O_CREAT | os.O_WRONLY)
        print(os.write(file, b"12345678"), flush=True)
        os.close(file)
    except OSError as error:
        print(error.errno, flush=True)
if len(sys.argv) > 2:
    write(sys.argv[2])
else:
    write("parent")
    subprocess.run([sys.executable, __file__, folder, "child"])
"""


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Faults:
    try:
        return Faults(tmp_path_factory.mktemp("faults"))
    except NoCompiler as missing:
        pytest.skip(str(missing))


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "writes.py").write_text(WRITES)
    (tmp_path / "root").mkdir()
    return [sys.executable, str(tmp_path / "writes.py"), str(tmp_path / "root")]


def test_calls_below_the_root_are_counted_in_all_processes(faults: Faults, command: list[str], tmp_path: Path) -> None:
    ended, points = faults.trace(command, tmp_path / "root")
    assert (ended.code, ended.out, ended.failed) == (0, "8\n8\n", 0)
    made = [(point.call, point.path) for point in points]
    each = [("mkdir", "/{}"), ("open", "/{}/file"), ("write", "/{}/file"), ("close", "/{}/file")]
    assert made == [(call, path.format(who)) for who in ("parent", "child") for call, path in each]
    assert [point.number for point in points] == list(range(1, 9))
    assert len({point.process for point in points}) == 2


@pytest.mark.parametrize(
    ("what", "number", "printed"),
    [("ENOSPC", 3, "28\n8\n"), ("EIO", 8, "8\n8\n5\n"), ("short", 7, "8\n4\n"), ("EACCES", 5, "8\n13\n")],
)
def test_one_call_fails(
    faults: Faults, command: list[str], tmp_path: Path, what: str, number: int, printed: str
) -> None:
    ended = faults.run(command, tmp_path / "root", Fault(what), number)
    assert (ended.code, ended.out, ended.failed) == (0, printed, 1)


def test_fault_can_be_permanent(faults: Faults, command: list[str], tmp_path: Path) -> None:
    ended = faults.run(command, tmp_path / "root", Fault("ESTALE", lasts=True), 3)
    assert (ended.out, ended.failed) == ("116\n116\n", 2)


def test_the_process_is_killed_before_the_call(faults: Faults, command: list[str], tmp_path: Path) -> None:
    ended = faults.run(command, tmp_path / "root", Fault("kill"), 2)
    assert (ended.code, ended.calls) == (-signal.SIGKILL, 2)
    assert not (tmp_path / "root" / "parent" / "file").exists()
    copy(tmp_path / "nothing", tmp_path / "root")
    (tmp_path / "root").mkdir()
    ended = faults.run(command, tmp_path / "root", Fault("kill"), 6)
    assert (ended.code, ended.calls) == (0, 6)
    assert not (tmp_path / "root" / "child" / "file").exists()


def test_errors_that_no_fault_explains_are_reported(faults: Faults, tmp_path: Path) -> None:
    def of(code: str) -> list[str]:
        return complaints(faults.run([sys.executable, "-c", code], tmp_path / "root", Fault("EIO"), 1))

    assert of("raise SystemExit('one sentence')") == []
    assert of("raise ValueError") == ["traceback"]
    assert of("raise SystemExit(7)") == ["exit 7"]
    assert of("raise SystemExit(75)") == ["says nothing"]
    hangs = faults.run([sys.executable, "-c", "input"], tmp_path, Fault("EIO"), 1, timeout=0.0)
    assert complaints(hangs) == ["hangs"]
