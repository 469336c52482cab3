"""Build one shard in a worker process.

The task can be pickled and repeated, and prints nothing. The parent commits the attempt folder.
"""

import json
import os
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from multiprocessing import parent_process
from pathlib import Path
from time import perf_counter
from typing import TextIO, TypeVar

from dataprep.build.decode_check.originals import OriginalsWriter
from dataprep.build.decode_deadline import DecodeDeadline, DecodeTimeout
from dataprep.build.kill_points import kill_point
from dataprep.build.read_ahead import Wanted, read_ahead, read_item, wanted_item
from dataprep.build.receipt import CURRENT, LATE, ROWS, Moments, NotedRow, Receipt, Task, blob_digest, row_digest
from dataprep.build.records import find_record_kind
from dataprep.build.records.sample import Record, Sample, additional_values
from dataprep.images.check import keep_decoders_single
from dataprep.images.decoding import decode
from dataprep.images.picture import Picture
from dataprep.images.statistics import channel_moments
from dataprep.items import Place, Reject
from dataprep.mindrecord.format import HeaderFull, RowError, RowTooLarge
from dataprep.mindrecord.writer import ShardWriter
from dataprep.plan.sizes import larger_page
from dataprep.plan.store import Plan, PlannedItem
from schemas.dataset import Shard, file_sha256
from schemas.images.policy import ImageRejected, Policy
from schemas.layout import index_name
from schemas.process.memory import MemoryShortage, demand_threads, is_shortage

# Number of train images, the first of each shard, on which channel statistics are measured. Rows are in seeded order,
# so this is a fair sample.
MEASURED_IMAGES = 1024

_T = TypeVar("_T")


class PagesTooSmall(Exception):
    """The pages of a split are too small. The split must be built again with pages of `page_size` bytes."""

    def __init__(self, split: str, page_size: int) -> None:
        super().__init__(split, page_size)
        self.split = split
        self.page_size = page_size


def start_process() -> None:
    """Make a worker process silent and single-threaded, and end it when its parent ends.

    Codecs print to file descriptor 2 from C, and only the parent may use the terminal. There is one worker per core, so
    additional threads of a decoder or BLAS would only compete.
    """
    import signal

    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)  # sent to the whole group; the parent handles them
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    keep_decoders_single()
    demand_threads(2)  # the one below, and read_ahead's
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def build_shard(task: Task) -> Receipt:
    """Write the shard of `task` and its index, synced, into a new folder below task.attempts.

    The receipt lists rejected files. ROWS beside the shard lists written rows. Raises PagesTooSmall if a row does not
    fit, MemoryShortage if memory is short, OSError if the disk fails.
    """
    build: _Build | None = None
    try:
        attempt = Path(tempfile.mkdtemp(prefix=f"{task.shard.name}-", dir=task.attempts))
        build = _Build(task, attempt)
        return _build(task, attempt, build)
    except Exception as error:
        if not is_shortage(error):
            raise
        key = build.current_key if build else None
        raise MemoryShortage(task.shard.name, key, str(error) or type(error).__name__) from None
    finally:
        if build:
            build.close()


def _build(task: Task, attempt: Path, build: "_Build") -> Receipt:
    with (
        closing(Plan.open(task.plan)) as plan,
        closing(read_ahead(_wanted(task, plan), task.deadline_s)) as files,
        ShardWriter(attempt, task.names, task.shard.number, task.schema, task.geometry) as writer,
        (attempt / ROWS).open("w") as rows,
    ):
        for item, data in build.timed("read", files):
            kill_point("build.row")
            build.note_current(item)
            try:
                build.add(item, data, writer, rows)
            except ImageRejected as refusal:
                build.rejects.append(Reject(item.key, refusal.reason, refusal.detail, item.size))
            build.current_key = None
        started = perf_counter()
        _finish(task, writer)
    kill_point("build.finished")
    shard = describe_shard(writer.path, writer.rows)
    build.seconds["write"] += perf_counter() - started
    return build.receipt(shard)


def _wanted(task: Task, plan: Plan) -> Iterator[Wanted]:
    """Yield the files to read, in row order, with the new size and time of files fixed since the plan was made."""
    for item in plan.items(task.shard):
        if item.key in task.fixed:
            size, mtime_ns = task.fixed[item.key]
            item = item._replace(size=size, mtime_ns=mtime_ns)
        yield wanted_item(task.source, item, task.policy.max_bytes)


class _Build:
    """Counts, notes and timings while a shard is written."""

    def __init__(self, task: Task, attempt: Path) -> None:
        self.rejects: list[Reject] = []
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.current_key: str | None = None
        self._started = perf_counter()
        self._task = task
        self._attempt = attempt
        self._rows = 0
        self._class_rows = [0] * len(task.classes)
        self._labels = {name: label for label, name in enumerate(task.classes)}
        self._changed: Counter[str] = Counter()
        self._warnings: Counter[str] = Counter()
        self._moments = Moments()
        self._encode = find_record_kind(task.schema.kind).encode
        # With --check header no image is decoded, so none is measured.
        measures = task.shard.split == "train" and task.policy.check == "decode"
        self._to_measure = -(-MEASURED_IMAGES // len(task.names)) if measures else 0
        self._originals = OriginalsWriter(attempt)
        self._current = os.open(attempt / CURRENT, os.O_RDWR | os.O_CREAT, 0o666)
        self._deadline = DecodeDeadline(task.deadline_s, attempt / LATE, task.killable)

    def timed(self, stage: str, source: Iterator[_T]) -> Iterator[_T]:
        """Yield from `source` and add the time it takes to `stage`."""
        while True:
            started = perf_counter()
            value = next(source, None)
            self.seconds[stage] += perf_counter() - started
            if value is None:
                return
            yield value

    def note_current(self, item: PlannedItem) -> None:
        """Write the current key and the number of files done to CURRENT, for the parent."""
        self.current_key = item.key
        done = self._rows + len(self.rejects)
        os.pwrite(self._current, json.dumps([item.key, done]).encode() + b"\n", 0)

    def add(self, item: PlannedItem, data: bytes | ImageRejected, writer: ShardWriter, rows: TextIO) -> None:
        """Write one row. Raise ImageRejected to reject the file."""
        if item.key in self._task.excluded:
            raise ImageRejected(*self._task.excluded[item.key])
        if isinstance(data, ImageRejected):
            raise data
        started = perf_counter()
        measured = self._moments.images < self._to_measure
        try:
            with self._deadline:
                picture = decode(data, self._task.policy, measured, self._task.decoded_later)
        except DecodeTimeout:
            raise decode_timeout(self._task.deadline_s) from None
        record = self._record(item, picture)
        noted = _note(item, data, picture, self._task.policy, record)
        decoded = perf_counter()
        blob, raw = _write(self._task, writer, record.values)
        if measured and picture.image is not None:
            self._moments.add(1, *channel_moments(picture.image))
        stored = noted.image if blob is picture.data else blob_digest(blob)
        noted = noted._replace(row=row_digest(stored, raw).hex())
        rows.write(json.dumps(noted) + "\n")
        if self._task.decoded_later and picture.encode_s and data.startswith(b"\xff\xd8"):  # a re-encoded JPEG
            self._originals.add(self._rows, data)
        self._rows += 1
        for label in set(record.labels):
            self._class_rows[label] += 1
        self._changed.update(picture.changed)
        self._changed.update(record.changed)
        self._warnings.update(picture.warnings)
        self.seconds["encode"] += picture.encode_s
        self.seconds["decode"] += decoded - started - picture.encode_s
        self.seconds["write"] += perf_counter() - decoded

    def _record(self, item: PlannedItem, picture: Picture) -> Record:
        """Return the record of an image, with the columns without a role."""
        task = self._task
        annotation = json.loads(item.annotation) if item.annotation else {}
        sample = Sample(item, picture, annotation, self._labels, self._read, task.boxes, task.ignore_value)
        record = self._encode(task.schema, sample)
        record.values.update(additional_values(task.schema, annotation))
        return record

    def _read(self, place: Place, size: int, mtime_ns: int) -> bytes:
        """Return the bytes of another file of an annotation. Raises ImageRejected if they cannot be read."""
        wanted = wanted_item(self._task.source, PlannedItem("", -1, size, mtime_ns, place), self._task.policy.max_bytes)
        try:
            return read_item(wanted.path, wanted.item, wanted.max_bytes)
        except ImageRejected as error:
            raise ImageRejected("unreadable_annotation", f"the file of its annotation: {error.detail}") from None

    def close(self) -> None:
        """Close all files."""
        self._deadline.close()
        self._originals.close()
        os.close(self._current)

    def receipt(self, shard: Shard) -> Receipt:
        """Return the receipt of the finished shard."""
        self.seconds["all"] = perf_counter() - self._started
        return Receipt(
            shard=shard,
            split=self._task.shard.split,
            geometry=self._task.geometry,
            class_rows=self._class_rows,
            rejects=self.rejects,
            changed=self._changed,
            warnings=self._warnings,
            moments=self._moments,
            excluded=sorted(self._task.excluded),
            seconds=dict(self.seconds),
            attempt=self._attempt,
        )


def decode_timeout(deadline_s: float) -> ImageRejected:
    """Return the rejection of an image that takes more than `deadline_s` seconds of CPU time to decode."""
    return ImageRejected("decode_timeout", f"decoding it took more than {deadline_s:g} s of CPU time (--deadline)")


def _note(item: PlannedItem, data: bytes, picture: Picture, policy: Policy, record: Record) -> NotedRow:
    """Return the ROWS entry of a row. With --check header, `pixels` is the digest of the stored bytes."""
    file = blob_digest(data)
    image = file if picture.data is data else blob_digest(picture.data)
    by_bytes = policy.check == "header" and picture.passed
    pixels = image if by_bytes else blob_digest(picture.deciding_bytes())
    label = item.label if item.label >= 0 else list(record.labels)
    annotation = blob_digest(item.annotation.encode()) if item.annotation else ""
    return NotedRow(item.key, label, picture.width, picture.height, file, pixels, image, "", annotation)


def _write(task: Task, writer: ShardWriter, row: dict[str, object]) -> tuple[bytes, bytes]:
    """Write a row and return its blob and raw part.

    Raises ImageRejected if a value does not fit its column or no page can hold the row, PagesTooSmall if a larger page
    can.
    """
    try:
        return writer.write(row)
    except RowTooLarge as error:
        page_size = larger_page(error.needed)
        if page_size is None:
            raise ImageRejected("too_large", f"its row has {error.needed} bytes, more than a MindRecord page") from None
        raise PagesTooSmall(task.shard.split, page_size) from None
    except RowError as error:
        raise ImageRejected("invalid_record", str(error)) from None


def _finish(task: Task, writer: ShardWriter) -> None:
    try:
        writer.finish()
    except HeaderFull:
        raise PagesTooSmall(task.shard.split, 2 * task.geometry.page_size) from None


def describe_shard(path: Path, rows: int) -> Shard:
    """Return the dataset.json entry of a shard and its index; digests are read back from disk."""
    index = path.with_name(index_name(path.name))
    sizes = path.stat().st_size, index.stat().st_size
    return Shard(path.name, rows, sizes[0], file_sha256(path), sizes[1], file_sha256(index))
