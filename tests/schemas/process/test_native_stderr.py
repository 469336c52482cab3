"""Text that C code prints on file descriptor 2 is captured, in order, and only inside the context."""

import ctypes
import os
import subprocess
import sys

from schemas.process.native_stderr import MAX_BYTES, NativeStderr

C = ctypes.CDLL(None)


def test_take_returns_what_was_printed_since_the_last_call() -> None:
    with NativeStderr() as stderr:
        assert stderr.take() == ""
        C.perror(b"one")
        assert stderr.take().startswith("one: ")
        os.write(2, b"two\n")
        os.write(2, b"three\n")
        assert stderr.take() == "two\nthree\n"
        assert stderr.take() == ""


def test_a_flood_is_cut_and_does_not_reach_the_next_call() -> None:
    with NativeStderr() as stderr:
        for _ in range(3):
            os.write(2, b"x" * MAX_BYTES)
        assert len(stderr.take()) == MAX_BYTES
        assert stderr.take() == ""


SCRIPT = """
import os, sys
from schemas.process.native_stderr import NativeStderr
if sys.argv[1] == "closed": os.close(2)
for _ in range(3):
    with NativeStderr() as stderr:
        os.write(2, b"inside")
        assert stderr.take() == "inside"
try: os.write(2, b"outside ")
except OSError: print("still closed")
print(len(os.listdir("/proc/self/fd")))
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True)


def test_the_old_descriptor_is_back_afterwards_and_none_is_left_open() -> None:
    done = run("open")
    assert done.stderr == "outside "
    assert done.stdout == "4\n"  # 0, 1, 2, and the one that lists them


def test_a_process_without_descriptor_2_has_none_afterwards() -> None:
    done = run("closed")
    assert done.stdout == "still closed\n3\n"
