"""Rows of each rank: their order does not depend on ranks or workers, and evaluation reads each row once."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.dataset import load_dataset
from trainer.device.context import InEffect
from trainer.feed import pipeline
from trainer.feed.recipes import RECIPES, Pixels

pytestmark = pytest.mark.slow

PIXELS = Pixels(32, (100.0,) * 3, (30.0,) * 3)


def steps_of(folder: Path, effect: InEffect, batch_size: int, epochs: int = 2, skip: int = 0) -> list[list[bytes]]:
    batches = pipeline.train_batches(folder, load_dataset(folder), RECIPES["none"], PIXELS, batch_size, effect)
    if skip:
        batches.set_init_step(skip)
    iterator = batches.create_tuple_iterator(num_epochs=epochs, output_numpy=True)
    passes = range(epochs - skip // batches.get_dataset_size())
    return [[image.tobytes() for image in images] for _ in passes for images, _ in iterator]


def by_rank(effect: InEffect, ranks: int) -> list[InEffect]:
    return [replace(effect, num_shards=ranks, shard_id=rank) for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [2, 4])
def test_step_of_all_ranks_has_the_rows_of_one_rank_with_the_global_batch(
    ranks: int, stripes: Path, cpu: InEffect
) -> None:
    alone = steps_of(stripes, cpu, 8)
    parts = [steps_of(stripes, effect, 8 // ranks) for effect in by_rank(cpu, ranks)]
    assert len(alone) == 12
    for number, step in enumerate(alone):
        assert [parts[i % ranks][number][i // ranks] for i in range(8)] == step


@pytest.mark.parametrize("threads", [1, 2])
def test_order_does_not_depend_on_threads(threads: int, stripes: Path, cpu: InEffect) -> None:
    effect = replace(cpu, readers=threads, workers=threads, batchers=threads)
    assert steps_of(stripes, effect, 8) == steps_of(stripes, cpu, 8)


@pytest.mark.parametrize(("ranks", "batch_size", "steps"), [(5, 5, 1), (5, 2, 4), (7, 2, 3)])
def test_ranks_have_equally_many_steps_without_a_repeated_row(
    ranks: int, batch_size: int, steps: int, stripes: Path, cpu: InEffect
) -> None:
    """48 rows: a fifth is 9 or 10, so with batches of 5 a rank with 9 rows would get one row twice."""
    parts = [steps_of(stripes, effect, batch_size, epochs=1) for effect in by_rank(cpu, ranks)]
    assert [len(part) for part in parts] == [steps] * ranks
    read = [row for part in parts for step in part for row in step]
    assert len(set(read)) == len(read) == ranks * batch_size * steps


def test_rank_whose_last_batch_was_dropped_resumes_at_a_step(stripes: Path, cpu: InEffect) -> None:
    effect = replace(cpu, num_shards=5, shard_id=4)
    whole = steps_of(stripes, effect, 2)
    assert len(whole) == 8
    assert steps_of(stripes, effect, 2, skip=5) == whole[5:]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_any_number_of_ranks_resumes_at_a_step_with_the_rows_of_the_global_batch(
    ranks: int, stripes: Path, cpu: InEffect
) -> None:
    whole = steps_of(stripes, cpu, 8)[3:]
    parts = [steps_of(stripes, effect, 8 // ranks, skip=3) for effect in by_rank(cpu, ranks)]
    for number, step in enumerate(whole):
        assert [parts[i % ranks][number][i // ranks] for i in range(8)] == step


def evaluated(folder: Path, effect: InEffect, split: str = "val") -> list[bytes]:
    batches = pipeline.eval_batches(folder, load_dataset(folder), split, RECIPES["none"], PIXELS, 5, effect)
    rows: list[Any] = list(batches.create_tuple_iterator(num_epochs=1, output_numpy=True))
    return [image.tobytes() for images, _ in rows for image in images]


@pytest.mark.parametrize("ranks", [2, 3, 13, 16])
def test_ranks_together_evaluate_each_row_once_in_stored_order(ranks: int, stripes: Path, cpu: InEffect) -> None:
    whole = evaluated(stripes, cpu)
    assert len(set(whole)) == 13
    parts = [evaluated(stripes, effect) for effect in by_rank(cpu, ranks)]
    assert [row for part in parts for row in part] == whole
    assert {len(part) for part in parts} <= {13 // ranks, 13 // ranks + 1}


def test_keys_have_as_many_steps_as_their_batches(stripes: Path, cpu: InEffect) -> None:
    """48 rows on 5 ranks: a rank with 9 would get one row twice, so its keys would be ahead from epoch 2."""
    for effect in by_rank(cpu, 5):
        assert pipeline.train_keys(stripes, load_dataset(stripes), 5, effect).get_dataset_size() == 1
