"""What the launchers of several hosts tell each other: files beside the run folder, which all hosts share.

MindSpore notices a lost host only after a minute, and not which one. Each launcher writes the state of its ranks every
two seconds, and at its end why it ended.
"""

import contextlib
import json
import os
import shutil
import time
from pathlib import Path
from types import TracebackType

from trainer.cli.rank_watch import RankWatch
from trainer.errors import Busy, TrainerError

EVERY_S = 2.0
LOST_S = 60.0  # without a new note: longer than a share may delay it
GRACE_S = 5.0  # for the other hosts to read the last note


class NodeNotes:
    """The notes of host `node` of `nodes`, for a run in the folder `out`. Does nothing with one host."""

    def __init__(self, out: str | None, nodes: int, node: int, watch: RankWatch) -> None:
        run = Path(out or "").resolve()
        self.folder = run.with_name(f".{run.name}.nodes")
        self.others = [each for each in range(nodes) if each != node]
        self.node = node
        self.watch = watch
        self.written = 0.0
        self.count = 0
        self.old = {other: self._text(other) for other in self.others}  # of an earlier job
        self.last = dict(self.old)
        self.seen = dict.fromkeys(self.others, time.monotonic())

    def __enter__(self) -> "NodeNotes":
        if self.others:
            self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.others:
            return
        code = max(self.watch.ends().values(), default=1) if error is None else getattr(error, "exit_code", 1)
        self._write(str(error or ""), code)
        if self.node == 0:
            deadline = time.monotonic() + GRACE_S
            while time.monotonic() < deadline and not all(self._note(other).get("over") for other in self.others):
                time.sleep(EVERY_S / 10)
            shutil.rmtree(self.folder, ignore_errors=True)

    def problem(self) -> TrainerError | None:
        """Write a note if it is time; return why another host has ended the run, or None."""
        now = time.monotonic()
        if not self.others or now - self.written < EVERY_S:
            return None
        self._write("", None)
        for other in self.others:
            text = self._text(other)
            if text != self.last[other]:
                self.last[other], self.seen[other] = text, now
            if text == self.old[other]:
                continue  # it has not started yet: msrun waits for it
            note = self._note(other)
            if note.get("over") and note.get("code"):
                error = Busy if note["code"] == Busy.exit_code else TrainerError
                return error(f"host {other} ({note.get('host')}) ended: {note.get('why') or note['code']}")
            if not note.get("over") and now - self.seen[other] > LOST_S:
                return Busy(
                    f"host {other} ({note.get('host')}) has not been heard of for {LOST_S:.0f} s; its ranks were: "
                    f"{note.get('ranks')}; all ranks were stopped; the same commands resume from the last checkpoint"
                )
        return None

    def _text(self, node: int) -> str:
        with contextlib.suppress(OSError):
            return (self.folder / f"{node}.json").read_text()
        return ""

    def _note(self, node: int) -> dict[str, object]:
        with contextlib.suppress(ValueError):
            note = json.loads(self._text(node))
            return note if isinstance(note, dict) else {}
        return {}

    def _write(self, why: str, code: int | None) -> None:
        self.written = time.monotonic()
        self.count += 1
        ranks = "; ".join(str(state) for state in self.watch.states())
        note = {"host": self.watch.host, "count": self.count, "job": os.getpid(), "ranks": ranks}
        note |= {"over": code is not None, "code": code, "why": why}
        partial = self.folder / f".{self.node}.json"
        with contextlib.suppress(OSError):  # the share is gone for now: the other hosts notice, or it comes back
            partial.write_text(json.dumps(note))
            os.replace(partial, self.folder / f"{self.node}.json")
