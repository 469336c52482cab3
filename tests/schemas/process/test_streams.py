import subprocess
import sys

import pytest

SAY = (
    "from schemas.process.streams import prepare_streams, print_result\nimport sys\nprepare_streams()\n"
    "sys.stderr.write('progress\\n')\nkept = print_result('\\u732b 1.0')\nsys.exit(0 if kept else 1)\n"
)


def run(redirection: str, encoding: str = "utf-8") -> "subprocess.CompletedProcess[bytes]":
    command = f'PYTHONIOENCODING={encoding} "$0" -c "$1" {redirection}'
    return subprocess.run(["sh", "-c", command, sys.executable, SAY], capture_output=True, check=False)


def test_result_goes_to_stdout_and_progress_to_stderr() -> None:
    done = run("")
    assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == (0, "猫 1.0\n", "progress\n")


def test_characters_that_the_encoding_lacks_are_escaped() -> None:
    assert run("", "latin-1").stdout == b"\\u732b 1.0\n"


def test_closed_streams_cause_no_error() -> None:
    assert run("2>&-").stdout.decode() == "猫 1.0\n"
    assert run(">&-").returncode == 0
    assert run("<&- >&- 2>&-").returncode == 0


def test_full_disk_behind_stderr_causes_no_error() -> None:
    done = run("2>/dev/full")
    assert (done.returncode, done.stdout.decode()) == (0, "猫 1.0\n")


def test_a_result_that_stdout_rejects_is_printed_on_stderr() -> None:
    done = run(">/dev/full")
    assert done.returncode == 1
    assert "猫 1.0\nError: the result above could not be written to stdout: No space left" in done.stderr.decode()


@pytest.mark.slow
@pytest.mark.parametrize("program", ["dataprep", "trainer"])
def test_closed_streams_cause_no_error_if_the_program_restarts_for_its_locale(program: str) -> None:
    script = f'LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 "$0" -m {program} --version <&- >&-'
    done = subprocess.run(["sh", "-c", script, sys.executable], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
