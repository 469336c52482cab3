"""What a program prints in a locale other than UTF-8. In the locale C without UTF-8 mode, Python prints ASCII."""

import os
import pty
import subprocess
import sys

import pytest

from tests.examples import ROOT

OTHER = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}
PROGRAM = """
import os, sys
from schemas.process.locale import use_utf8
from schemas.process.streams import prepare_streams
prepare_streams()
use_utf8()
assert sys.getfilesystemencoding() == "utf-8" and "MINDSPORE_DATAPREP_TERMINAL" not in os.environ
print("\\u732b")
print("\\u732b", file=sys.stderr)
"""


def test_a_terminal_gets_its_own_encoding_and_escapes_for_the_rest() -> None:
    master, slave = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env={**os.environ, **OTHER}, stdout=slave, stderr=slave, check=False
        )
        assert (done.returncode, os.read(master, 1000)) == (0, b"\\u732b\r\n\\u732b\r\n")
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_file_or_pipe_gets_utf8(stream: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **OTHER}, capture_output=True, check=False
    )
    assert (done.returncode, getattr(done, stream)) == (0, b"\xe7\x8c\xab\n")
