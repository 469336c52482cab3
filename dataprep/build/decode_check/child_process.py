"""A child process that decodes with MindSpore (child.py): requests, answers, and the reasons of its loss."""

import json
import os
import re
import selectors
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dataprep.build.decode_check.child import PARENT, Answer, Answers, Request
from dataprep.errors import DataprepError
from schemas.process.native_stderr import stderr_file, take_text

START_S = 300.0
SLICE_S = 1.0
STOPPED_S = 30.0  # give up on a child that was stopped by a signal for this long, also during its start
COMMAND = (sys.executable, "-m", "dataprep.build.decode_check.child")
# Messages of MindSpore, OpenCV, libjpeg, OpenBLAS, Python and the loader when memory is short.
_NO_MEMORY = re.compile(
    r"bad[_ ]alloc|memoryerror|(insufficient|out of|not enough|no more) memory|(cannot|can't|failed to|unable to) "
    r"(allocate|map segment)|alloc\w* (\w+ )?(failed|failure)|can't start new thread|pthread_create failed|"
    r"resource temporarily unavailable|unexpected error\..*memory",
    re.IGNORECASE,
)


class ChildLost(Exception):
    """The child cannot answer any more. `external` is True if no image can be the cause."""

    external = False


class ChildKilled(ChildLost):
    """The child was killed by SIGKILL.

    The signal comes from the kernel when memory is short, or from a user. Decoders do not send it.
    """

    external = True


class OutOfMemory(ChildLost):
    """The child ran out of memory."""

    external = True


class ChildDied(ChildLost):
    """The child ended by another signal (`by_signal`) or with an exit code."""

    def __init__(self, text: str, by_signal: bool) -> None:
        super().__init__(text)
        self.by_signal = by_signal


class ChildLostAtStart(ChildLost):
    """The child was ended by a signal before it had an image. Usually memory is short."""

    external = True


class ChildSilent(ChildLost):
    """The child was busy for longer than the deadline of one image."""


class ChildStopped(ChildLost):
    """The child did not answer because it did not run: it was stopped by a signal or waited for a disk."""

    external = True


def is_out_of_memory(text: str) -> bool:
    """Return True if the message of a decoder or process says that memory could not be allocated."""
    return bool(_NO_MEMORY.search(text))


class DecoderChild:
    """A child process that decodes. It starts immediately.

    After a method has raised ChildLost, the process has ended.
    """

    def __init__(self, scratch: Path, command: Sequence[str]) -> None:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        # MindSpore takes paths as UTF-8 in any locale.
        env = {**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1", PARENT: str(os.getpid())}
        self._stderr = stderr_file()
        self._process = subprocess.Popen(
            command,
            cwd=scratch,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            bufsize=0,
            start_new_session=True,  # Ctrl-C goes to the parent, which ends the child
        )
        assert self._process.stdout is not None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._ready = False
        self._ended = False

    def kill(self) -> None:
        """End the process from any thread; a pending `ask` raises ChildLost."""
        self._process.kill()

    def ask(self, request: Request, deadline_s: float) -> Answers:
        """Yield the answers to one request, up to `done`.

        Each answer may take `deadline_s` seconds. Raises ChildLost if the child ends or does not answer, DataprepError
        if MindSpore cannot be started.
        """
        if self._ended:  # and starting another child failed
            raise ChildKilled("the decode process is gone")
        if not self._ready:
            self._await_start()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._lose()
        while "done" not in (answer := self._answer(deadline_s)):
            yield answer

    def _await_start(self) -> None:
        try:
            self._answer(START_S)
        except ChildDied as lost:
            if lost.by_signal:  # a wrong installation ends with an exit code
                raise ChildLostAtStart(f"{lost} while it started") from None
            raise DataprepError(
                f"MindSpore cannot be started for the decode check ({lost}); run `python -c 'import mindspore'` to see "
                "why, or skip the check with --prove off"
            ) from None
        except ChildSilent as lost:  # it had no image yet
            raise ChildStopped(str(lost)) from None
        self._ready = True

    def _answer(self, deadline_s: float) -> Answer:
        silent_s = self._silence(deadline_s)
        if silent_s:
            runs = self._state() not in "TtD"
            self.end()
            if runs:
                raise ChildSilent(f"the decoder was still busy after {silent_s:g} s")
            raise ChildStopped(f"the decode process was stopped, or waited for a disk, for {silent_s:g} s")
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            self._lose()
        answer: Answer = json.loads(line)
        return answer

    def _silence(self, deadline_s: float) -> float:
        """Wait for an answer.

        Returns 0 if an answer arrives within the deadline, otherwise the seconds waited. The wait is shorter if the
        child is stopped. Time in which this process was also stopped counts as one slice.
        """
        left_s, stopped_s = deadline_s, 0.0
        while left_s > 0 and stopped_s < STOPPED_S:
            if self._selector.select(min(left_s, SLICE_S)):
                return 0.0
            left_s -= SLICE_S
            stopped_s = stopped_s + SLICE_S if self._state() in "Tt" else 0.0
        return 0.0 if self._selector.select(0) else deadline_s - max(0.0, left_s)

    def _state(self) -> str:
        """Return the process state of proc(5): T or t is stopped, D is waiting for a disk."""
        try:
            return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(") ")[2][:1] or "?"
        except OSError:
            return "?"

    def _lose(self) -> None:
        """Raise the ChildLost error for a child that has closed its end of a pipe."""
        code = self._process.wait()
        message = take_text(self._stderr)
        self.end()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        if code == -signal.SIGKILL:
            raise ChildKilled("the decode process was killed (signal 9)")
        if is_out_of_memory(message):
            raise OutOfMemory(f"the decode process ran out of memory and ended by {how}")
        raise ChildDied(f"the decoder ended by {how}", code < 0)

    def end(self) -> None:
        """End the process and close its files; safe to call twice."""
        if self._ended:
            return
        self._ended = True
        self._process.kill()
        self._process.wait()
        self._selector.close()
        os.close(self._stderr)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()
