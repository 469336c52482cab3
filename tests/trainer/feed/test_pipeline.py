from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.dataset import load_dataset
from trainer.device.context import InEffect
from trainer.errors import Busy, TrainerError
from trainer.feed.pipeline import eval_batches, pipeline_errors, train_batches
from trainer.feed.recipes import RECIPES, Pixels

pytestmark = pytest.mark.slow

PIXELS = Pixels(32, (100.0,) * 3, (30.0,) * 3)


def epochs(pipeline: Any, count: int) -> list[list[tuple[Any, Any]]]:
    iterator = pipeline.create_tuple_iterator(num_epochs=count, output_numpy=True)
    return [[(images, labels) for images, labels in iterator] for _ in range(count)]


def fingerprints(batches: list[tuple[Any, Any]]) -> list[bytes]:
    return [image.tobytes() for images, _ in batches for image in images]


def train_pipeline(folder: Path, cpu: InEffect, batch_size: int, recipe: str = "none") -> Any:
    return train_batches(folder, load_dataset(folder), RECIPES[recipe], PIXELS, batch_size, cpu)


def eval_pipeline(folder: Path, cpu: InEffect, batch_size: int) -> Any:
    return eval_batches(folder, load_dataset(folder), "val", RECIPES["none"], PIXELS, batch_size, cpu)


@pytest.mark.parametrize("recipe", RECIPES)
def test_each_recipe_gives_normalised_batches_of_one_shape_in_training_and_evaluation(
    recipe: str, stripes: Path, cpu: InEffect
) -> None:
    dataset = load_dataset(stripes)
    train = train_batches(stripes, dataset, RECIPES[recipe], PIXELS, 48, cpu)
    val = eval_batches(stripes, dataset, "val", RECIPES[recipe], PIXELS, 13, cpu)
    for pipeline, count in ((train, 48), (val, 13)):
        [[(images, labels)]] = epochs(pipeline, 1)
        assert (images.shape, images.dtype) == ((count, 3, 32, 32), np.float32)
        assert (labels.shape, labels.dtype) == ((count,), np.int32)
        assert abs(images.mean()) < 1.0
        assert 0.3 < images.std() < 2.0


def test_training_shuffles_each_epoch_and_has_every_row_once(stripes: Path, cpu: InEffect) -> None:
    first, second = (fingerprints(epoch) for epoch in epochs(train_pipeline(stripes, cpu, 12), 2))
    assert first != second
    assert len(set(first)) == 48
    assert set(first) == set(second)


def test_training_order_is_the_same_again_for_the_same_seed(stripes: Path, cpu: InEffect) -> None:
    runs = [fingerprints(epochs(train_pipeline(stripes, cpu, 12), 1)[0]) for _ in range(2)]
    assert runs[0] == runs[1]


def test_training_drops_the_incomplete_batch(stripes: Path, cpu: InEffect) -> None:
    assert [len(labels) for _, labels in epochs(train_pipeline(stripes, cpu, 20), 1)[0]] == [20, 20]


def test_evaluation_gives_every_row_once_the_last_batch_smaller(stripes: Path, cpu: InEffect) -> None:
    [batches] = epochs(eval_pipeline(stripes, cpu, 5), 1)
    assert [len(labels) for _, labels in batches] == [5, 5, 3]
    assert len(set(fingerprints(batches))) == 13


def test_pipeline_error_becomes_one_sentence(tmp_path: Path) -> None:
    sentence = "reading .* failed: map operation: .Decode. failed.; the image is a/b.jpg; 'dataprep verify --decode'"
    with pytest.raises(TrainerError, match=sentence), pipeline_errors(tmp_path, lambda: "a/b.jpg"):
        raise RuntimeError(
            "Dataset Pipeline Error\n---\n[ERROR] map operation: [Decode] failed.\n---\nC++ call stack\n"
        )


def test_error_has_the_line_that_mindspore_marks(tmp_path: Path) -> None:
    report = (
        "Exception thrown.\n---\n- Dataset Pipeline Error Message: \n---\n[ERROR] map operation: [Decode] failed.\n"
    )
    with pytest.raises(TrainerError, match=r"reading .* failed: map operation"), pipeline_errors(tmp_path):
        raise RuntimeError(report)


def test_missing_or_unreadable_dataset_is_reported_instead_of_mindspores_error(tmp_path: Path) -> None:
    report = "Dataset Pipeline Error\n[ERROR] [Internal ERROR] Failed to read file."
    with pytest.raises(FileNotFoundError) as gone, pipeline_errors(tmp_path / "gone"):
        raise RuntimeError(report)
    assert gone.value.filename == str(tmp_path / "gone")
    with pytest.raises(Busy, match="could not read a shard of"), pipeline_errors(tmp_path):
        raise RuntimeError(report)


def test_error_in_the_search_for_the_image_does_not_hide_the_original_error(tmp_path: Path) -> None:
    def fails() -> str:
        raise RuntimeError("the same rows fail again")

    with pytest.raises(TrainerError, match="failed: map operation"), pipeline_errors(tmp_path, fails):
        raise RuntimeError("Dataset Pipeline Error\n[ERROR] map operation: [Decode] failed.")


def test_other_failures_keep_their_traceback() -> None:
    with pytest.raises(RuntimeError, match="unrelated"), pipeline_errors(Path("/d")):
        raise RuntimeError("unrelated")
