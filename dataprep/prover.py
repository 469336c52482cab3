"""Lets a child process read shards back with the trainer's decoder, and finds the image that kills or stalls it."""

import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataprep.errors import DataprepError
from dataprep.keys import portable_path
from schemas.record import RecordSchema

START_S = 300.0
UNEXPLAINED_DEATHS = 2
COMMAND = (sys.executable, "-m", "dataprep.prove")


class ChildDied(Exception):
    """The child ended: by a signal, by the kernel for want of memory, or by a bug."""


class ChildSilent(Exception):
    """The child has said nothing for longer than one image may take."""


@dataclass(frozen=True)
class Fault:
    """The image of a row that the trainer's decoder cannot be given."""

    row: int
    reason: str
    detail: str


class Prover:
    """One child that proves one shard after the other. A context manager; the child starts at once.

    `decode` says how rows are decoded: `full`, `strip` (see prove._decoder), or None to read them only. `deadline_s` is
    how long the child may be silent, `threads` how many threads decode.
    """

    def __init__(
        self,
        schema: RecordSchema,
        scratch: Path,
        decode: str | None,
        threads: int,
        deadline_s: float,
        command: Any = COMMAND,
    ) -> None:
        self._columns = {role: schema.column(role) for role in ("image", "label", "key")}
        self._scratch = tempfile.mkdtemp(prefix="prove-", dir=scratch)
        self._decode = decode
        self._threads = threads
        self._deadline_s = deadline_s
        self._command = command
        self._closed = False
        self._child = self._start()
        self._ready = False

    def __enter__(self) -> "Prover":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def stop(self) -> None:
        """End the child from another thread: whoever waits for it gets a DataprepError."""
        self._closed = True
        self._child.kill()

    def prove(self, shard: Path, rows: int, noted: Path) -> list[Fault]:
        """The images at fault in a shard of so many rows; empty when every row reads back as it was noted in ROWS.

        Raises DataprepError when the shard reads back wrong, or when MindSpore fails and no image is to blame.
        """
        faults, failed = [], None
        if not rows:
            return []  # MindDataset reads an empty shard within a set, but refuses it alone
        try:
            for answer in self._ask(shard, noted, one_by_one=False):
                if "wrong" in answer:
                    raise DataprepError(
                        f"shard {shard.name} does not read back as written: {answer['wrong']}; check the disk"
                    )
                failed = answer.get("failed", failed)
                if "bad" in answer:
                    faults.append(Fault(answer["bad"], "decoder_error", answer["detail"]))
        except (ChildDied, ChildSilent) as error:
            failed = str(error)
        return self._find_faults(shard, rows, noted, failed) if failed else faults

    def _find_faults(self, shard: Path, rows: int, noted: Path, why: str) -> list[Fault]:
        """Decode row by row; each death or silence costs the image that was announced, and a new child."""
        faults: list[Fault] = []
        row, unexplained = -1, 0
        while row < rows:
            announced = row
            try:
                for answer in self._ask(shard, noted, one_by_one=True, first=row + 1):
                    row = answer.get("row", row)
                    if "bad" in answer:
                        faults.append(Fault(answer["bad"], "decoder_error", answer["detail"]))
                break
            except (ChildDied, ChildSilent) as error:
                if row > announced:
                    reason = "decoder_crash" if isinstance(error, ChildDied) else "decoder_hang"
                    faults.append(Fault(row, reason, str(error)))
                    continue
                # It was still dying of the request before this one, or it is not the images.
                unexplained += 1
                if unexplained > UNEXPLAINED_DEATHS:
                    break
        if not faults or unexplained > UNEXPLAINED_DEATHS:
            raise DataprepError(
                f"MindSpore cannot read shard {shard.name} ({why}), and none of its images is to blame; "
                "run the same command again, or with --prove off --restart to go without this check"
            )
        return faults

    def _ask(self, shard: Path, noted: Path, one_by_one: bool, first: int = 0) -> Iterator[dict[str, Any]]:
        """The child's answers to one request, up to `done`."""
        if not self._ready:
            self._expect_ready()
        request = {
            "shard": portable_path(shard.absolute()),
            "rows": portable_path(noted.absolute()),
            "columns": self._columns,
            "decode": self._decode,
            "threads": self._threads,
            "one_by_one": one_by_one,
            "first": first,
        }
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(request).encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            self._give_up()
        while "done" not in (answer := self._answer(self._deadline_s)):
            yield answer

    def _expect_ready(self) -> None:
        try:
            self._answer(START_S)
        except (ChildDied, ChildSilent) as error:
            raise DataprepError(
                f"MindSpore cannot be started to prove the shards ({error}); see what `python -c 'import mindspore'` "
                "says, or go without with --prove off"
            ) from None
        self._ready = True

    def _answer(self, deadline_s: float) -> dict[str, Any]:
        """The next answer; raises ChildDied or ChildSilent, and then another child is started for the next request."""
        if not self._selector.select(deadline_s):
            self._restart()
            raise ChildSilent(f"the decoder was still busy after {deadline_s:g} s")
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line.endswith(b"\n"):
            self._give_up()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _give_up(self) -> None:
        code = self._restart()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise ChildDied(f"the decoder ended by {how}")

    def _restart(self) -> int:
        code = self._end()
        if self._closed:
            raise DataprepError("the job was stopped")
        self._child = self._start()
        self._ready = False
        return code

    def _start(self) -> "subprocess.Popen[bytes]":
        path = os.pathsep.join(entry for entry in sys.path if entry)
        # Its folder is another, so a relative entry would not be found. MindSpore takes paths as UTF-8 in any locale.
        env = {**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"}
        child = subprocess.Popen(
            self._command,
            cwd=self._scratch,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the parent, which ends it
        )
        self._selector = selectors.DefaultSelector()
        assert child.stdout is not None
        self._selector.register(child.stdout, selectors.EVENT_READ)
        return child

    def _end(self) -> int:
        """Kill the child; its exit code, had it ended by itself."""
        ended = self._child.poll()
        if ended is None and self._died():
            ended = self._child.wait()
        self._child.kill()
        code = self._child.wait()
        self._selector.close()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe:
                pipe.close()
        return code if ended is None else ended

    def _died(self) -> bool:
        """Whether its end of the pipe is closed: then its exit code is on the way."""
        assert self._child.stdout is not None
        return bool(self._selector.select(0)) and not self._child.stdout.read(1)
