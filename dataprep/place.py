"""The decisions of a plan as pure functions: the same answer for any listing order, engine and worker count."""

import hashlib
from collections.abc import Iterable

from dataprep.item import Item
from dataprep.mindrecord.format import GROUP_ENTRY_BYTES, HEADER_SIZES, PAGE_ENTRY_BYTES, PAGE_SIZES, Geometry

MIB = 1 << 20
# What a row costs beside its image: prefixes, label, key, and its share of the index.
ROW_OVERHEAD = 128


def rank(seed: int, key: str) -> int:
    """Place of a key in the seeded order: 63 bits that depend on nothing but seed and key."""
    digest = hashlib.blake2b(f"{seed}:{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def item_fingerprint(item: Item) -> int:
    """128 bits of a file's key, size and time of change."""
    text = f"{item.key}\0{item.size}\0{item.mtime_ns}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big")


def fingerprint(items: Iterable[Item]) -> str:
    """One value for a set of files, whatever the order in which they are listed."""
    return f"{sum(item_fingerprint(item) for item in items) % (1 << 128):032x}"


def quotas(count: int, val: float, test: float) -> tuple[int, int]:
    """How many of a class's `count` files go to val and to test; train keeps at least one."""
    val_count = min(int(count * val + 0.5), max(0, count - 1))
    test_count = min(int(count * test + 0.5), max(0, count - 1 - val_count))
    return val_count, test_count


def shard_size(total: int) -> int:
    """Bytes a shard where the user names none: 512 MiB, or a sixteenth of a smaller set, so that it can be built,
    read and shuffled in parallel, but at least 4 MiB. A function of the set alone: not of cores or workers.
    """
    return min(512 * MIB, max(4 * MIB, total // 16))


def shard_count(split_bytes: int, train_bytes: int, shard_size: int, num_shards: int | None) -> int:
    """Number of shards of a split. With num_shards the train split gets that many, the others in proportion."""
    if num_shards is None:
        return max(1, -(-split_bytes // shard_size))
    return max(1, -(-num_shards * split_bytes // train_bytes)) if train_bytes else num_shards


def shard_of(before: int, total: int, count: int) -> int:
    """The shard, 0..count-1, of an item with `before` of the split's `total` bytes ahead of it in order."""
    return min(count - 1, before * count // total) if total else 0


def geometry(shard_bytes: int, largest: int, shards: int) -> Geometry:
    """Page and header size for shards of about `shard_bytes` with files of up to `largest` bytes.

    A page is a 64th of a shard, so what stays empty between pages stays below two percent; it holds twice
    the largest file, since an image may grow when it is normalised. The header has room for four times the pages.
    Where that does not suffice the pages are doubled and the split is built again.
    """
    page_size = _power_of_two(max(2 * (largest + ROW_OVERHEAD), shard_bytes // 64), *PAGE_SIZES)
    pages = 8 * (shard_bytes // page_size + 4)
    names = 40 * shards
    header = 4096 + names + pages * (PAGE_ENTRY_BYTES + GROUP_ENTRY_BYTES)
    return Geometry(_power_of_two(header, *HEADER_SIZES), page_size)


def larger_page(needed: int) -> int | None:
    """The page size for a row of `needed` bytes; None when MindRecord has none."""
    return _power_of_two(needed, *PAGE_SIZES) if needed <= PAGE_SIZES[1] else None


def _power_of_two(size: int, low: int, high: int) -> int:
    return min(high, max(low, 1 << max(0, size - 1).bit_length()))
