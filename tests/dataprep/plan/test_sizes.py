import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.mindrecord.format import PAGE_SIZES
from dataprep.plan import sizes

GIB = 1 << 30


def test_rank_depends_on_seed_and_key_only() -> None:
    assert sizes.rank(0, "cat/1.jpg") == 8518794096134340216
    assert sizes.rank(1, "cat/1.jpg") != sizes.rank(0, "cat/1.jpg")


def test_fingerprint_does_not_depend_on_the_order_of_files() -> None:
    files = [(11, 100, 5), (13, 100, 6), (17, 200, 5)]

    def known(*parts: tuple[int, int, int]) -> str:
        return sizes.fingerprint(sum(sizes.fingerprint_part(*part) for part in parts))

    others = [files[:2], [(11, 101, 5), *files[1:]], [(11, 100, 4), *files[1:]], [(11, 100, 6), (13, 100, 5), files[2]]]
    assert known(*files) == known(*reversed(files))
    assert known(*files) not in [known(*other) for other in others]


@given(st.integers(0, 10_000), st.floats(0, 0.5), st.floats(0, 0.49))
def test_train_keeps_at_least_one_of_a_class(count: int, val: float, test: float) -> None:
    counts = sizes.quotas(count, val, test)
    assert min(counts) >= 0
    assert sum(counts) <= max(0, count - 1)


def test_quotas_round_to_the_nearest() -> None:
    assert sizes.quotas(200, 0.1, 0) == (20, 0)
    assert sizes.quotas(4, 0.1, 0) == (0, 0)
    assert sizes.quotas(5, 0.1, 0.2) == (1, 1)
    assert sizes.quotas(1, 0.5, 0.4) == (0, 0)


def test_num_shards_counts_train_shards_and_others_follow_in_size() -> None:
    assert sizes.shard_count(1000, 1000, 512, None) == 2
    assert sizes.shard_count(1000, 1000, 512, 4) == 4
    assert sizes.shard_count(100, 1000, 512, 4) == 1
    assert sizes.shard_count(5, 5, 512, 8) == 8
    assert sizes.shard_count(0, 0, 512, None) == 1


def test_a_small_set_still_gets_several_shards() -> None:
    assert [sizes.shard_size(total) >> 20 for total in (0, 160 << 20, 1 << 40)] == [4, 10, 512]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60), st.integers(1, 9))
def test_shards_are_runs_of_about_equal_bytes(shard_bytes: list[int], count: int) -> None:
    total, before, numbers = sum(shard_bytes), 0, []
    for size in shard_bytes:
        numbers.append(max(n for n in range(count) if sizes.shard_begin(n, total, count) <= before))
        before += size
    assert numbers == sorted(numbers)
    assert set(numbers) <= set(range(count))
    for number in set(numbers):
        bytes_held = sum(size for size, shard in zip(shard_bytes, numbers, strict=True) if shard == number)
        assert bytes_held <= total / count + max(shard_bytes)


@given(st.integers(1, 1 << 33), st.integers(1, 100 << 20), st.integers(1, 10_000))
def test_geometry_is_legal_and_holds_twice_the_largest_file(shard_bytes: int, largest: int, shards: int) -> None:
    planned = sizes.geometry(shard_bytes, largest, shards)
    assert planned.page_size >= min(2 * largest, PAGE_SIZES[1])


def test_a_small_set_gets_small_pages() -> None:
    planned = sizes.geometry(5 << 20, 20_000, 2)
    assert (planned.header_size, planned.page_size) == (1 << 17, 1 << 17)


def test_larger_page_stops_at_the_limit_of_mindrecord() -> None:
    assert sizes.larger_page(40_000) == 1 << 16
    assert sizes.larger_page((256 << 20) + 1) is None


@pytest.mark.parametrize(
    ("cores", "memory", "largest", "decode_check", "expected"),
    [
        (8, 64 * GIB, 100_000, True, 8),
        (8, GIB, 100_000, False, 8),
        (64, 4 * GIB, 20 << 20, False, 5),
        (64, 4 * GIB, 20 << 20, True, 4),
        (4, 0, 0, True, 1),
    ],
)
def test_workers_fit_into_memory(cores: int, memory: int, largest: int, decode_check: bool, expected: int) -> None:
    assert sizes.fitting_workers(cores, memory, largest, decode_check) == expected
