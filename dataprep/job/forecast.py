"""Estimate, for a dry run, the size of the shards and the files that will be rejected.

The estimates are made from a sample of the images.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import cycle, islice

from dataprep.build.read_ahead import Wanted, read_ahead
from dataprep.errors import DataRejected
from dataprep.images.decoding import decode
from dataprep.images.reasons import reason_of_head
from dataprep.items import source_path
from dataprep.mindrecord.format import PREFIX, Geometry
from dataprep.options import ShardOptions
from dataprep.plan import sizes as plan_sizes
from dataprep.plan.store import Plan, PlannedItem
from schemas.counting import many
from schemas.images.policy import ImageRejected

SAMPLE = 200
# Opening a file takes 0.1 ms (local disk) to several ms (network share), so number and time are limited.
HEADS = 20_000
HEADS_S = 20.0
_HEAD_BYTES = 2100
# Size of a row in a raw page and in the index (measured).
_RAW_ROW_BYTES = 64
_INDEX_ROW_BYTES = 120
_INDEX_BYTES = 16 << 10  # an index without rows
_PACKED_ROWS = 20_000  # rows that are simulated; the rest of the split is extrapolated


@dataclass(frozen=True)
class Sample:
    """Sampled images: bytes of their files, bytes of each stored image, and rejects by reason."""

    images: int
    file_bytes: int
    row_bytes: list[int]
    rejected: Counter[str]
    seconds: float


@dataclass
class Known:
    """Files that are known to be rejected without decoding: by the scan, their size or their first bytes.

    `looked_at` is the number of files whose first bytes were read. `by_label` counts the rejects of each class.
    """

    reasons: Counter[str] = field(default_factory=Counter)
    by_label: Counter[int] = field(default_factory=Counter)
    looked_at: int = 0


def try_sample(plan: Plan, options: ShardOptions) -> Sample:
    """Read and decode SAMPLE images, evenly spread over the plan."""
    items = plan.sample(SAMPLE)
    rows: list[int] = []
    rejected: Counter[str] = Counter()
    started = time.perf_counter()
    wanted = (Wanted(source_path(plan.source, item.key), item, options.policy.max_bytes) for item in items)
    with closing(read_ahead(wanted, options.deadline)) as files:
        for _, data in files:
            try:
                if isinstance(data, ImageRejected):
                    raise data
                rows.append(len(decode(data, options.policy).data))
            except ImageRejected as refusal:
                rejected[refusal.reason] += 1
    seconds = time.perf_counter() - started
    return Sample(len(items), sum(item.size for item in items), rows, rejected, seconds)


def set_bytes(plan: Plan, sample: Sample) -> int:
    """Estimate the size of all shards and indexes.

    Pages are filled with rows from the sample, as the writer does.
    """
    if not sample.row_bytes:
        return 0
    # The sample gives the ratio of stored to file bytes, the plan the total.
    scale = (plan.bytes / plan.item_count) / max(1.0, sample.file_bytes / sample.images)
    rows = [round(size * scale) + PREFIX.size for size in sample.row_bytes]
    accepted = len(rows) / sample.images
    total = 0
    for split, shards in plan.splits().items():
        counts = [max(1, round(shard.items * accepted)) for shard in shards]
        total += _split_bytes(rows, counts, plan.geometry(split))
    return total


def _split_bytes(rows: Sequence[int], counts: Sequence[int], geometry: Geometry) -> int:
    """Estimate the shards of a split, which hold `counts` rows. Row sizes are taken from `rows` in turn."""
    page = max(geometry.page_size, plan_sizes.larger_page(max(rows)) or 0)
    sizes = cycle(rows)
    total = packed = 0
    for count in counts:
        if packed > _PACKED_ROWS:
            break
        total += _shard_bytes(sizes, count, page)
        packed += count
    overhead = len(counts) * (geometry.header_size + _INDEX_BYTES) + sum(counts) * _INDEX_ROW_BYTES
    return overhead + round(total * sum(counts) / packed)


def _shard_bytes(sizes: Iterator[int], count: int, page: int) -> int:
    """Estimate the pages of a shard with `count` rows."""
    packed = min(count, _PACKED_ROWS)
    pages, last = _packed(islice(sizes, packed), page)
    blob_pages = round(pages * count / packed)
    raw_bytes = count * _RAW_ROW_BYTES
    # The first raw page follows the first blob page. The last page of the file ends with its last row.
    tail = last if blob_pages > 1 else raw_bytes % page
    return (blob_pages + -(-raw_bytes // page) - 1) * page + tail


def _packed(rows: Iterator[int], page: int) -> tuple[int, int]:
    """Return the number of pages that these rows fill, and the bytes used in the last one."""
    pages, used = 1, 0
    for size in rows:
        if used + size > page:
            pages, used = pages + 1, 0
        used += size
    return pages, used


def known_rejects(plan: Plan, max_bytes: int) -> Known:
    """Return files rejected by the scan, by their size, or by the first bytes of up to HEADS files."""
    known = Known(Counter(reject.reason for reject in plan.rejects()))
    deadline = time.monotonic() + HEADS_S
    for item in plan.sample(HEADS):
        if time.monotonic() > deadline:
            break
        reason = _reason(plan.source, item, max_bytes)
        known.looked_at += 1
        if reason:
            known.reasons[reason] += 1
            known.by_label[item.label] += 1
    return known


def _reason(source: str, item: PlannedItem, max_bytes: int) -> str | None:
    if not item.size:
        return "empty"
    if item.size > max_bytes:
        return "too_large"
    try:
        head = _head(source_path(source, item.key))
    except PermissionError:
        return "permission_denied"
    except OSError:
        return None  # the sample and the job report it
    return reason_of_head(head)


def _head(path: str | bytes) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _HEAD_BYTES)
    finally:
        os.close(descriptor)


def stopped_by(plan: Plan, options: ShardOptions, known: Known, sample: Sample) -> str | None:
    """Return a sentence about the reject limit that will probably stop the job; None if there is none."""
    scanned = len(plan.rejects())
    candidates = plan.item_count + scanned
    certain = known.reasons.total()
    code = f"the job would stop with exit code {DataRejected.exit_code} and seal nothing"
    if not options.max_rejects.allows(certain, candidates):
        return f"this exceeds --max-rejects {options.max_rejects} of {candidates:,} files: {code}"
    for label, name in enumerate(plan.classes):
        files = sum(rows[label] for rows in plan.class_rows().values())
        if not options.max_class_loss.allows(known.by_label[label], files):
            return (
                f"class '{name}' would lose {known.by_label[label]:,} of its {many(files, 'file')}, more than "
                f"--max-class-loss {options.max_class_loss} allows: {code}"
            )
    likely = scanned + round(plan.item_count * sample.rejected.total() / max(1, sample.images))
    if not options.max_rejects.allows(likely, candidates):
        estimate = "" if sample.images == plan.item_count else ", estimated from the sample"
        return (
            f"{likely:,} of {candidates:,} files would be rejected{estimate}, more than --max-rejects "
            f"{options.max_rejects} allows: {code}"
        )
    return None
