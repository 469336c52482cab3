import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.config import RunConfig
from trainer.decisions import StartSettings
from trainer.device.context import Machine, decide
from trainer.errors import TrainerError
from trainer.feed.threads import LEAST_PREFETCH, OTHER_FILES, PREFETCH, Demand, decide_feed, queue_bytes

PHOTOS = Demand(files=10, row_bytes=110_000, sample_bytes=3 * 224**2 * 4, batch_size=64)
GIB = 1 << 30


def test_large_machine_has_one_worker_per_core_and_few_other_threads() -> None:
    feed = decide_feed(None, None, 64, 512 * GIB, 1 << 20, PHOTOS)
    assert (feed.workers, feed.readers, feed.batchers, feed.prefetch) == (64, 8, 9, PREFETCH)
    assert feed.open_files == 10 * 9 + OTHER_FILES


def test_small_machine_has_one_reader_and_one_batcher() -> None:
    feed = decide_feed(None, None, 2, 8 * GIB, 1 << 20, PHOTOS)
    assert (feed.workers, feed.readers, feed.batchers, feed.prefetch) == (2, 1, 1, PREFETCH)


def test_little_memory_lowers_prefetch_first_then_workers() -> None:
    less = decide_feed(None, None, 16, 3 * GIB, 1 << 20, PHOTOS)
    assert less.workers == 16
    assert LEAST_PREFETCH <= less.prefetch < PREFETCH
    least = decide_feed(None, None, 64, 2 * GIB, 1 << 20, PHOTOS)
    assert least.prefetch == LEAST_PREFETCH
    assert least.workers < 64
    assert "fewer than the 64 cores" in least.decisions[0].why
    assert "lowered to fit a quarter of the 2.0 GiB" in least.decisions[1].why


@given(st.integers(1, 256), st.integers(0, 1 << 40), st.integers(1, 1024), st.integers(16, 1024))
def test_queues_fit_a_quarter_of_memory_or_are_minimal(cores: int, memory: int, batch: int, side: int) -> None:
    demand = Demand(1, 100_000, 3 * side**2 * 4, batch)
    feed = decide_feed(None, None, cores, memory, 1 << 20, demand)
    assert 1 <= feed.readers <= feed.workers <= cores
    held = queue_bytes(feed.workers, feed.batchers, feed.prefetch, demand)
    assert held <= memory // 4 or (feed.workers, feed.prefetch) == (1, LEAST_PREFETCH)


def test_requested_workers_are_limited_by_the_cores_of_the_host() -> None:
    feed = decide_feed(2, None, 1, None, 1 << 20, PHOTOS, host_cores=2)
    assert feed.workers == 2
    assert "may use 1 of the host's 2 cores" in feed.decisions[0].why
    assert decide_feed(3, None, 1, None, 1 << 20, PHOTOS, host_cores=2).workers == 2


def test_requested_values_are_used_whatever_the_memory() -> None:
    feed = decide_feed(3, 16, 8, 1, 1 << 20, PHOTOS)
    assert (feed.workers, feed.prefetch) == (3, 16)
    assert [line.asked for line in feed.decisions] == ["3", "16"]


def test_readers_are_limited_by_open_files() -> None:
    demand = Demand(300, 1, 1, 1)
    assert decide_feed(None, None, 64, None, 1 << 20, demand).readers == 8
    assert decide_feed(None, None, 64, None, 1200, demand).readers == 2


def test_too_many_files_are_rejected_with_the_limit() -> None:
    with pytest.raises(
        TrainerError, match=r"reading 500 files at once needs 1256 open files, .* limit is 1024; raise the limit"
    ):
        decide_feed(None, None, 8, None, 1024, Demand(500, 1, 1, 1))


def test_machines_memory_and_files_reach_the_decision() -> None:
    effect = decide(RunConfig("d"), Machine(False, 64, memory=2 * GIB, open_files=280), demand=PHOTOS)
    assert effect.workers < 64
    assert (effect.readers, effect.open_files) == (1, 276)


def test_resume_keeps_the_number_of_workers() -> None:
    fewer = decide_feed(None, None, 1, GIB, 1 << 20, PHOTOS, 8, StartSettings("", "", workers=8))
    assert (fewer.workers, fewer.warning) == (8, ""), "whatever the cores and memory of this process"
    assert fewer.decisions[0].why.startswith("as at the start of this run: ")
    assert not fewer.decisions[0].plain
    more = decide_feed(None, None, 64, None, 1 << 20, PHOTOS, 64, StartSettings("", "", workers=2))
    assert (more.workers, more.warning) == (2, "")


@pytest.mark.parametrize(
    ("asked", "begun", "workers", "why"),
    [
        (
            None,
            9,
            2,
            "this run was started with 9 workers, too many for MindSpore on a host of 4 cores; with 2 workers the",
        ),
        (3, 1, 3, "this run was started with 1 worker, but --workers 3 gives 3; use --workers 1, or the weights"),
        (None, None, 2, "this run has no record of its number of workers; unless the number was 2, the weights"),
    ],
)
def test_resume_with_other_workers_gives_a_warning(
    asked: int | None, begun: int | None, workers: int, why: str
) -> None:
    feed = decide_feed(asked, None, 2, None, 1 << 20, PHOTOS, 4, StartSettings("", "", workers=begun))
    assert feed.workers == workers
    assert feed.warning.startswith(why)
    assert "will differ from those of an uninterrupted run" in feed.warning


def test_resume_that_redraws_augmentation_may_change_workers() -> None:
    begun = StartSettings("", "", workers=2)
    machine = Machine(ascend=True, cores=8)
    effect = decide(RunConfig("d"), machine, steps=40, start=begun)
    assert (effect.workers, effect.warnings) == (8, ())
    assert decide(RunConfig("d", exact_resume=True), machine, steps=40, start=begun).workers == 2
    assert decide(RunConfig("d", exact_resume=True, workers=8), machine, steps=40, start=begun).warnings
