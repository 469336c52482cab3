"""The decisions of a plan as pure functions: the same answer for any listing order, engine and worker count."""

import hashlib

from dataprep.mindrecord.format import GROUP_ENTRY_BYTES, HEADER_SIZES, PAGE_ENTRY_BYTES, PAGE_SIZES, Geometry

MIB = 1 << 20
# What a row costs beside its image: prefixes, label, key, and its share of the index.
ROW_OVERHEAD = 128

# A worker without an image holds about so much (measured: 60 MiB with Pillow), MindSpore's child about so much.
WORKER_BYTES = 96 << 20
PROVER_BYTES = 768 << 20
# What one image takes at most while it is decoded, turned and encoded, a byte of its file: 10 for the pixels of a
# JPEG, and three pictures of them.
IMAGE_FACTOR = 30


def rank(seed: int, key: str) -> int:
    """Place of a key in the seeded order: 63 bits that depend on nothing but seed and key."""
    digest = hashlib.blake2b(f"{seed}:{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def fingerprint_part(rank: int, size: int, mtime_ns: int) -> int:
    """What a file adds to the fingerprint of its set. Ranks are as good as random, so the sums of other files, sizes
    or times come out equal once in 2 ** 63; and a second digest a file would cost a tenth of a whole scan.
    """
    return rank * ((mtime_ns << 1 | 1) + (size << 65))


def fingerprint(total: int) -> str:
    """One value for a set of files, whatever the order in which they are listed: of the sum of their parts."""
    return f"{total % (1 << 128):032x}"


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


def shard_begin(number: int, total: int, count: int) -> int:
    """A shard begins with the first item that has at least so many of its split's `total` bytes ahead of it."""
    return max(min(number, 1), -(-number * total // count))


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


def fitting_workers(cores: int, memory: int, largest_file: int, proving: bool) -> int:
    """Return how many worker processes keep `cores` busy and fit into `memory` bytes; at least one.

    `largest_file` is in bytes; `proving` reserves memory for the decode check.
    """
    room = memory - (PROVER_BYTES if proving else 0)
    return max(1, min(cores, room // (WORKER_BYTES + IMAGE_FACTOR * largest_file)))
