"""Builds one shard: picklable, idempotent, silent. What it makes lies in its own folder until the parent commits."""

import os
import stat
import tempfile
import threading
from collections import Counter
from contextlib import closing
from multiprocessing import parent_process
from pathlib import Path

from dataprep import place
from dataprep.encode import ENCODERS
from dataprep.images import Picture, Refusal, channel_moments, normalise
from dataprep.item import Reject
from dataprep.mindrecord import HeaderFull, RowTooLarge, ShardWriter
from dataprep.plan import Plan, PlannedItem
from dataprep.receipt import Moments, Receipt, Task
from schemas.dataset import Shard, file_sha256
from schemas.layout import index_name

# Pixels are measured on the first rows of each train shard. Rows are in seeded order, so these are a fair sample.
MEASURED_IMAGES = 256


class PagesTooSmall(Exception):
    """The split's pages do not hold what is in it; build it again with pages of `page_size` bytes."""

    def __init__(self, split: str, page_size: int) -> None:
        super().__init__(split, page_size)
        self.split = split
        self.page_size = page_size


def start_process() -> None:
    """Make a worker process silent, and let it end with its parent, however the parent ends.

    Codecs print to file descriptor 2 from C; one process owns the terminal, and it is not this one.
    """
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what a Ctrl-C ends
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def build_shard(task: Task) -> Receipt:
    """Write the shard of `task` and its index, synced, into a new folder below task.attempts.

    Refused files are listed in the receipt. Raises PagesTooSmall, and OSError for what is wrong with the disk.
    """
    attempt = Path(tempfile.mkdtemp(prefix=f"{task.shard.name}-", dir=task.attempts))
    class_rows = [0] * task.classes
    rejects: list[Reject] = []
    changed: Counter[str] = Counter()
    moments = Moments()
    with (
        closing(Plan.open(task.plan)) as plan,
        ShardWriter(attempt, task.names, task.shard.number, task.schema, task.geometry) as writer,
    ):
        for item in plan.items(task.shard):
            try:
                wanted = task.shard.split == "train" and moments.images < MEASURED_IMAGES
                picture = _load(task, item, wanted)
                _write(task, writer, item, picture)
            except Refusal as refusal:
                rejects.append(Reject(item.key, refusal.reason, refusal.detail))
                continue
            class_rows[item.label] += 1
            changed.update(picture.changed)
            if wanted and picture.image is not None:
                moments.add(1, *channel_moments(picture.image))
        _finish(task, writer)
    shard = describe_shard(writer.path, writer.rows)
    return Receipt(shard, task.shard.split, task.geometry, class_rows, rejects, changed, moments, attempt)


def _load(task: Task, item: PlannedItem, want_pixels: bool) -> Picture:
    data = read_item(os.path.join(task.source, item.path), item)
    return normalise(data, task.policy, want_pixels)


def read_item(path: str, item: PlannedItem) -> bytes:
    """The bytes of a planned file; raises Refusal when it is not the regular file that was planned."""
    try:
        # Without O_NONBLOCK a FIFO that took the file's place would block for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Refusal("vanished", "it was there when the job was planned") from None
    except PermissionError:
        raise Refusal("permission_denied", "this user may not read it") from None
    except OSError as error:
        raise Refusal("unreadable", error.strerror or str(error)) from None
    with open(descriptor, "rb", buffering=0) as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise Refusal("not_a_regular_file", "it was a file when the job was planned")
        if (found.st_size, found.st_mtime_ns) != (item.size, item.mtime_ns):
            raise Refusal("changed", f"it had {item.size} bytes when the job was planned, now {found.st_size}")
        try:
            data = file.readall()
        except OSError as error:
            raise Refusal("unreadable", error.strerror or str(error)) from None
    if len(data) != item.size:
        raise Refusal("changed", f"{len(data)} of its {item.size} bytes could be read")
    return data


def _write(task: Task, writer: ShardWriter, item: PlannedItem, picture: Picture) -> None:
    try:
        writer.write(ENCODERS[task.schema.kind](task.schema, item, picture.data))
    except RowTooLarge as error:
        page_size = place.larger_page(error.needed)
        if page_size is None:
            raise Refusal("too_large", f"its row has {error.needed} bytes, more than a MindRecord page") from None
        raise PagesTooSmall(task.shard.split, page_size) from None


def _finish(task: Task, writer: ShardWriter) -> None:
    try:
        writer.finish()
    except HeaderFull:
        raise PagesTooSmall(task.shard.split, 2 * task.geometry.page_size) from None


def describe_shard(path: Path, rows: int) -> Shard:
    """The manifest's entry of a shard and its index, digests read back from disk."""
    index = path.with_name(index_name(path.name))
    sizes = path.stat().st_size, index.stat().st_size
    return Shard(path.name, rows, sizes[0], file_sha256(path), sizes[1], file_sha256(index))
