"""Lets a child process read shards back with the trainer's decoder, and finds the images that are at fault."""

import errno
import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dataprep.build.decode_check.child_process import (
    COMMAND,
    ChildDied,
    ChildLost,
    DecoderChild,
    OutOfMemory,
    is_out_of_memory,
)
from dataprep.build.decode_check.complaints import DAMAGED
from dataprep.errors import DataprepError, TryLater
from dataprep.items import portable_path
from schemas.record import RecordSchema

# A row is at fault when it ends or silences so many fresh children that have nothing else to decode.
TRIALS = 2
# After so many losses of a child over one shard that no image explains, the job ends.
MAX_UNEXPLAINED = 3


@dataclass(frozen=True)
class Fault:
    """The image of a row that cannot be given to the trainer's decoder, or that it says is damaged."""

    row: int
    reason: str
    detail: str


class ShardFiles(NamedTuple):
    """A built shard, its number of rows, its ROWS file, and the file of re-encoded JPEGs if there may be one."""

    shard: Path
    rows: int
    noted: Path
    originals: Path | None = None


@dataclass
class Verdict:
    """The images at fault, and how many of the others are odd by kind of warning. Kept by row, so that a row may be
    looked at again.
    """

    by_row: dict[int, Fault] = field(default_factory=dict)
    odd: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    @property
    def faults(self) -> list[Fault]:
        """The images at fault, by row."""
        return [self.by_row[row] for row in sorted(self.by_row)]

    @property
    def warnings(self) -> Counter[str]:
        """Images without fault, by the kind of warning that a decoder gave."""
        return Counter({name: len(rows - self.by_row.keys()) for name, rows in sorted(self.odd.items())})


class Prover:
    """One child that proves one shard after the other. A context manager; the child starts at once.

    `decode` says how rows are decoded: `full`, `strip` (see prove._strip), or None to read them only. `deadline_s` is
    how long the child may be silent, `threads` how many threads decode. With `keep_damaged` images that a decoder says
    are damaged are counted, not at fault.
    """

    def __init__(
        self,
        schema: RecordSchema,
        scratch: Path,
        decode: str | None,
        threads: int,
        deadline_s: float,
        keep_damaged: bool = False,
        command: Any = COMMAND,
    ) -> None:
        self._columns = {field.role: field.name for field in schema.fields if field.role}
        self._scratch = Path(tempfile.mkdtemp(prefix="prove-", dir=scratch))
        self._decode = decode
        self._threads = threads
        self._deadline_s = deadline_s
        self._keep_damaged = keep_damaged
        self._command = command
        self._closed = False
        self._unexplained = 0
        self._child = self._start()

    def __enter__(self) -> "Prover":
        return self

    def __exit__(self, *_: object) -> None:
        self._child.end()

    def stop(self) -> None:
        """End the child from another thread: whoever waits for it gets a DataprepError."""
        self._closed = True
        self._child.kill()

    def prove(self, files: ShardFiles) -> Verdict:
        """The verdict on a shard: without a fault every row reads back as it was noted.

        Raises DataprepError when the shard reads back wrong, or when MindSpore fails and no image is to blame; TryLater
        when the child was lost again and again for another reason than an image.
        """
        self._unexplained = 0
        row_by_row: Verdict | None = None
        while files.rows:  # MindDataset reads an empty shard within a set, but refuses it alone
            loss: ChildLost | None = None
            try:
                verdict, why = self._all_at_once(files)
                if why is None:
                    return row_by_row or verdict
                if row_by_row or not self._decode:
                    raise DataprepError(_no_culprit(files, why))
            except ChildLost as lost:
                loss = lost
            if row_by_row is None and self._decode and not (loss and loss.blameless):
                row_by_row = self._row_by_row(files)
                if row_by_row.by_row:
                    return row_by_row
            if loss:
                self._excuse(files, loss)
        return Verdict()

    def _all_at_once(self, files: ShardFiles) -> tuple[Verdict, str | None]:
        """The verdict, and MindSpore's words if it gave up."""
        verdict = Verdict()
        wrong, failed = None, None
        for answer in self._ask(files, one_by_one=False):
            wrong = answer.get("wrong", wrong)
            failed = answer.get("failed", failed)
            self._note(answer, verdict)
        if wrong:
            raise DataprepError(f"shard {files.shard.name} does not read back as written: {wrong}; check the disk")
        return verdict, failed

    def _row_by_row(self, files: ShardFiles) -> Verdict:
        """Decode each row by itself; one that may have ended the child is tried alone."""
        verdict = Verdict()
        first = 0
        while first < files.rows:
            row = -1
            try:
                for answer in self._ask(files, one_by_one=True, first=first):
                    row = answer.get("row", row)
                    self._note(answer, verdict)
                return verdict
            except ChildLost as lost:
                fault = None if lost.blameless or row < 0 else self._blame(files, row)
                first = max(first, row)
                if fault is None:
                    self._excuse(files, lost)
                    continue
                verdict.by_row[row] = fault
                first = row + 1
        return verdict

    def _blame(self, files: ShardFiles, row: int) -> Fault | None:
        """The fault of a row that ends or silences fresh children which decode nothing else; None if one survives."""
        lost: list[ChildLost] = []
        while len(lost) < TRIALS:
            announced = False
            try:
                for answer in self._ask(files, one_by_one=True, first=row, last=row):
                    announced |= answer.get("row") == row
                return None
            except ChildLost as error:
                if error.blameless or not announced:
                    self._excuse(files, error)
                else:
                    lost.append(error)
        died = next((error for error in lost if isinstance(error, ChildDied)), None)
        return Fault(row, "decoder_crash" if died else "decoder_hang", str(died or lost[-1]))

    def _excuse(self, files: ShardFiles, lost: ChildLost) -> None:
        """Count a loss that no image explains; raises TryLater when it was one too many."""
        self._unexplained += 1
        self._threads = 1  # a decoder refused memory may also end by a signal, and one thread needs the least
        if self._unexplained >= MAX_UNEXPLAINED:
            raise TryLater(
                f"the process that decodes shards with MindSpore was lost {self._unexplained} times over "
                f"{files.shard.name}, and no image is to blame (the last time {lost}); most often memory is short: "
                "give the job more memory or fewer --workers, then the same command goes on"
            )

    def _note(self, answer: dict[str, Any], verdict: Verdict) -> None:
        """Add an answer to the verdict; raises OutOfMemory for an error that says nothing about the image."""
        error = answer.get("failed", "" if "complaint" in answer else answer.get("detail", ""))
        if is_out_of_memory(error):
            self._replace()
            raise OutOfMemory(error)
        if "bad" in answer:
            verdict.by_row[answer["bad"]] = Fault(answer["bad"], "decoder_error", answer["detail"])
        if "complaint" in answer:
            row = answer["complaint"]
            if answer["damage"] and not self._keep_damaged:
                verdict.by_row.setdefault(row, Fault(row, "corrupt", answer["detail"]))
            else:
                verdict.odd[DAMAGED if answer["damage"] else answer["name"]].add(row)

    def _ask(self, files: ShardFiles, one_by_one: bool, first: int = 0, last: int = -1) -> Iterator[dict[str, Any]]:
        """The child's answers to one request; a child that is lost over it is replaced by a fresh one."""
        request = {
            "shard": portable_path(files.shard.absolute()),
            "rows": portable_path(files.noted.absolute()),
            "originals": portable_path(files.originals.absolute()) if files.originals else os.devnull,
            "columns": self._columns,
            "decode": self._decode,
            "threads": self._threads,
            "one_by_one": one_by_one,
            "first": first,
            "last": last,
        }
        try:
            yield from self._child.ask(request, self._deadline_s)
        except ChildLost:
            self._replace()
            raise

    def _replace(self) -> None:
        self._child.end()
        self._child = self._start()
        if self._closed:  # since it was looked at
            self._child.end()
            raise DataprepError("the job was stopped")

    def _start(self) -> DecoderChild:
        try:
            return DecoderChild(self._scratch, self._command)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ENOMEM):
                raise
            raise TryLater(
                f"the process that decodes shards with MindSpore cannot be started ({error.strerror}): memory or "
                "processes are short; give the job more or use fewer --workers, then the same command goes on"
            ) from None


def _no_culprit(files: ShardFiles, why: str) -> str:
    return (
        f"MindSpore cannot read shard {files.shard.name} ({why}), and none of its images is to blame; "
        "run the same command again, or with --prove off --restart to go without this check"
    )
