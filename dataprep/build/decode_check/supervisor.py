"""Supervise the child that reads shards back with the trainer's decoder, and find the images to reject."""

import errno
import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from dataprep.build.decode_check.child import Answer, Answers, Request
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

# A row is rejected if this many new children crash or hang while decoding it alone.
TRIALS = 2
# The job ends after this many losses of the child on one shard that no image explains.
MAX_UNEXPLAINED = 3


@dataclass(frozen=True)
class Fault:
    """An image that the trainer's decoder cannot decode or reports as damaged."""

    row: int
    reason: str
    detail: str


class ShardFiles(NamedTuple):
    """Files of a built shard: path and row count, ROWS file, and the originals of re-encoded JPEGs, if any."""

    shard: Path
    rows: int
    noted: Path
    originals: Path | None = None


@dataclass
class Findings:
    """Images to reject and warnings about the other images, both by row.

    A row that is decoded again replaces its entry.
    """

    fault_by_row: dict[int, Fault] = field(default_factory=dict)
    rows_by_warning: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    @property
    def faults(self) -> list[Fault]:
        """Images to reject, in row order."""
        return [self.fault_by_row[row] for row in sorted(self.fault_by_row)]

    @property
    def warnings(self) -> Counter[str]:
        """Number of accepted images per decoder warning."""
        rejected = self.fault_by_row.keys()
        return Counter({name: len(rows - rejected) for name, rows in sorted(self.rows_by_warning.items())})


class DecodeChecker:
    """Checks shards one at a time in a child process.

    Use it as a context manager. The child starts immediately. `decode` is `full`, `strip` (see child.py), or None to
    read rows without decoding. `threads` is the number of decoding threads. `deadline_s` limits the time between two
    answers of the child. If `keep_damaged`, images that a decoder reports as damaged are counted as warnings and not
    rejected.
    """

    def __init__(
        self,
        schema: RecordSchema,
        scratch: Path,
        decode: str | None,
        threads: int,
        deadline_s: float,
        keep_damaged: bool = False,
        command: Sequence[str] = COMMAND,
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

    def __enter__(self) -> "DecodeChecker":
        return self

    def __exit__(self, *_: object) -> None:
        self._child.end()

    def stop(self) -> None:
        """End the child from another thread; a pending `check` raises DataprepError."""
        self._closed = True
        self._child.kill()

    def check(self, files: ShardFiles) -> Findings:
        """Read a shard back and return the images to reject. If there are none, every row matches its ROWS entry.

        Raises DataprepError if a row differs, or if MindSpore fails and no image is the cause. Raises TryLater if the
        child is lost repeatedly and no image is the cause.
        """
        self._unexplained = 0
        row_by_row: Findings | None = None
        while files.rows:  # MindDataset accepts an empty shard in a set, but not alone
            loss: ChildLost | None = None
            try:
                findings, error = self._all_at_once(files)
                if error is None:
                    return row_by_row or findings
                if row_by_row or not self._decode:
                    raise DataprepError(_unexplained_error(files, error))
            except ChildLost as lost:
                loss = lost
            if row_by_row is None and self._decode and not (loss and loss.external):
                row_by_row = self._row_by_row(files)
                if row_by_row.faults:
                    return row_by_row
            if loss:
                self._count_unexplained(files, loss)
        return Findings()

    def _all_at_once(self, files: ShardFiles) -> tuple[Findings, str | None]:
        """Return the findings, and MindSpore's error message if it failed."""
        findings = Findings()
        wrong, failed = None, None
        for answer in self._ask(files, one_by_one=False):
            wrong = answer.get("wrong", wrong)
            failed = answer.get("failed", failed)
            self._note(answer, findings)
        if wrong:
            raise DataprepError(f"shard {files.shard.name} does not read back as written: {wrong}; check the disk")
        return findings, failed

    def _row_by_row(self, files: ShardFiles) -> Findings:
        """Decode rows one at a time. Confirm the row at which the child was lost."""
        findings = Findings()
        first = 0
        while first < files.rows:
            row = -1
            try:
                for answer in self._ask(files, one_by_one=True, first=first):
                    row = answer.get("row", row)
                    self._note(answer, findings)
                return findings
            except ChildLost as lost:
                fault = None if lost.external or row < 0 else self._confirm_fault(files, row)
                first = max(first, row)
                if fault is None:
                    self._count_unexplained(files, lost)
                    continue
                findings.fault_by_row[row] = fault
                first = row + 1
        return findings

    def _confirm_fault(self, files: ShardFiles, row: int) -> Fault | None:
        """Decode one row in new children. Return its fault if all crash or hang, None if one succeeds."""
        lost: list[ChildLost] = []
        while len(lost) < TRIALS:
            announced = False
            try:
                for answer in self._ask(files, one_by_one=True, first=row, last=row):
                    announced |= answer.get("row") == row
                return None
            except ChildLost as error:
                if error.external or not announced:
                    self._count_unexplained(files, error)
                else:
                    lost.append(error)
        died = next((error for error in lost if isinstance(error, ChildDied)), None)
        return Fault(row, "decoder_crash" if died else "decoder_hang", str(died or lost[-1]))

    def _count_unexplained(self, files: ShardFiles, lost: ChildLost) -> None:
        """Count a loss that no image explains. Raise TryLater at MAX_UNEXPLAINED."""
        self._unexplained += 1
        self._threads = 1  # a decoder out of memory may also crash; one thread needs the least
        if self._unexplained >= MAX_UNEXPLAINED:
            raise TryLater(
                f"the process that decodes shards with MindSpore ended unexpectedly {self._unexplained} times on "
                f"{files.shard.name}, and no image is the cause (last: {lost}); the usual cause is too little memory: "
                "give the job more memory or fewer --workers, then the same command resumes"
            )

    def _note(self, answer: Answer, findings: Findings) -> None:
        """Add an answer to the findings. Raise OutOfMemory if the error does not concern the image."""
        error = str(answer.get("failed", "" if "complaint" in answer else answer.get("detail", "")))
        if is_out_of_memory(error):
            self._replace()
            raise OutOfMemory(error)
        if "bad" in answer:
            findings.fault_by_row[answer["bad"]] = Fault(answer["bad"], "decoder_error", answer["detail"])
        if "complaint" in answer:
            row = answer["complaint"]
            if answer["damage"] and not self._keep_damaged:
                findings.fault_by_row.setdefault(row, Fault(row, "corrupt", answer["detail"]))
            else:
                findings.rows_by_warning[DAMAGED if answer["damage"] else answer["name"]].add(row)

    def _ask(self, files: ShardFiles, one_by_one: bool, first: int = 0, last: int = -1) -> Answers:
        """Yield the answers to one request. Replace the child if it is lost."""
        request: Request = {
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
        if self._closed:  # by `stop`, meanwhile
            self._child.end()
            raise DataprepError("the job was stopped")

    def _start(self) -> DecoderChild:
        try:
            return DecoderChild(self._scratch, self._command)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ENOMEM):
                raise
            raise TryLater(
                f"the process that decodes shards with MindSpore cannot be started ({error.strerror}): too little "
                "memory or too many processes; raise the limit or use fewer --workers, then the same command resumes"
            ) from None


def _unexplained_error(files: ShardFiles, error: str) -> str:
    return (
        f"MindSpore cannot read shard {files.shard.name} ({error}), and none of its images is the cause; "
        "run the same command again, or with --prove off --restart to skip the decode check"
    )
