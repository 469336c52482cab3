"""Sizes and order of a plan.

The functions are pure and do not depend on listing order, engine or number of workers.
"""

import hashlib
import json

from dataprep.items import Item
from dataprep.mindrecord.format import GROUP_ENTRY_BYTES, HEADER_SIZES, PAGE_ENTRY_BYTES, PAGE_SIZES, Geometry

MIB = 1 << 20
# Bytes per row besides the image: prefixes, label, key, share of the index.
ROW_OVERHEAD = 128

# Memory of a worker without an image (60 MiB measured with Pillow), and of the decode check's child with MindSpore.
WORKER_BYTES = 96 << 20
DECODE_CHECK_BYTES = 768 << 20
# Peak memory of decoding, rotating and encoding an image, per byte of its file: 10 for the pixels of a JPEG, times
# three copies.
IMAGE_FACTOR = 30


def rank(seed: int, key: str) -> int:
    """Return the rank of a key in the seeded order.

    The rank has 63 bits that depend only on seed and key.
    """
    digest = hashlib.blake2b(f"{seed}:{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def fingerprint_part(rank: int, size: int, mtime_ns: int, mark: int = 0) -> int:
    """Return the summand of an image in the fingerprint of its dataset. `mark` is that of mark().

    Ranks are close to random, so two datasets have equal sums with a probability of 2 ** -63. A second digest per file
    would cost a tenth of the scan.
    """
    return rank * ((mtime_ns << 1 | 1) + (size << 65)) + mark


def mark(item: Item) -> int:
    """Return a number of 63 bits for the place, split, class and annotation of an image.

    It is 0 for a file in a folder, whose path says all of it.
    """
    if item.place is None and item.annotation is None and item.group is None:
        return 0
    values = json.dumps([item.class_name, item.split, item.place, item.annotation, item.group], sort_keys=True)
    return int.from_bytes(hashlib.blake2b(values.encode(), digest_size=8).digest(), "big") >> 1


def fingerprint(total: int) -> str:
    """Return the fingerprint of a set of files from the sum of their parts, in any order."""
    return f"{total % (1 << 128):032x}"


def quotas(count: int, val: float, test: float) -> tuple[int, int]:
    """Return how many of the `count` files of a class go to val and to test. At least one stays in train."""
    val_count = min(int(count * val + 0.5), max(0, count - 1))
    test_count = min(int(count * test + 0.5), max(0, count - 1 - val_count))
    return val_count, test_count


def shard_size(total: int) -> int:
    """Return the default shard size in bytes for a dataset of `total` bytes.

    It is 512 MiB, or a sixteenth of a smaller dataset so that building, reading and shuffling can be parallel, but at
    least 4 MiB. It does not depend on the number of cores.
    """
    return min(512 * MIB, max(4 * MIB, total // 16))


def shard_count(split_bytes: int, train_bytes: int, shard_size: int, num_shards: int | None) -> int:
    """Return the number of shards of a split.

    `num_shards` is that of the train split. Other splits are proportional.
    """
    if num_shards is None:
        return max(1, -(-split_bytes // shard_size))
    return max(1, -(-num_shards * split_bytes // train_bytes)) if train_bytes else num_shards


def shard_begin(number: int, total: int, count: int) -> int:
    """Return the offset in the split's `total` bytes: the shard starts at the first item at or after it."""
    return max(min(number, 1), -(-number * total // count))


def geometry(shard_bytes: int, largest: int, shards: int) -> Geometry:
    """Return page and header size for shards of about `shard_bytes` with files of up to `largest` bytes.

    A page is a 64th of a shard, so padding stays below two percent. It has room for twice the largest file, since an
    image may grow when it is re-encoded. The header has room for four times the expected pages. If that is not enough,
    pages are doubled and the split is built again.
    """
    page_size = _power_of_two(max(2 * (largest + ROW_OVERHEAD), shard_bytes // 64), *PAGE_SIZES)
    pages = 8 * (shard_bytes // page_size + 4)
    names = 40 * shards
    header = 4096 + names + pages * (PAGE_ENTRY_BYTES + GROUP_ENTRY_BYTES)
    return Geometry(_power_of_two(header, *HEADER_SIZES), page_size)


def larger_page(needed: int) -> int | None:
    """Return the page size for a row of `needed` bytes; None if MindRecord has none."""
    return _power_of_two(needed, *PAGE_SIZES) if needed <= PAGE_SIZES[1] else None


def _power_of_two(size: int, low: int, high: int) -> int:
    return min(high, max(low, 1 << max(0, size - 1).bit_length()))


def fitting_workers(cores: int, memory: int, largest_file: int, decode_check: bool) -> int:
    """Return the number of worker processes that keep `cores` busy and fit into `memory` bytes, at least one.

    `largest_file` is in bytes. `decode_check` reserves memory for its child.
    """
    available = memory - (DECODE_CHECK_BYTES if decode_check else 0)
    return max(1, min(cores, available // (WORKER_BYTES + IMAGE_FACTOR * largest_file)))
