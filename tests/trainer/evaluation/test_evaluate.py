from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, nn

from schemas.dataset import load_dataset
from schemas.errors import ContractError
from trainer.config import RunConfig
from trainer.device.context import InEffect
from trainer.errors import TrainerError
from trainer.evaluation.evaluate import check_classes, evaluate_checkpoint
from trainer.feed.pipeline import eval_batches
from trainer.feed.recipes import RECIPES, Pixels
from trainer.nn.models import find_factory
from trainer.nn.tasks.classification import TASK
from trainer.runs import checkpoint
from trainer.runs.checkpoint import Meta
from trainer.training.outputs import evaluate_network

pytestmark = pytest.mark.slow

PIXELS = Pixels(32, (100.0,) * 3, (30.0,) * 3)
ASKED = RunConfig("", device="CPU", workers=1, batch_size=5)


class AlwaysClassOne(nn.Cell):  # type: ignore[misc]
    """Notes the batch sizes it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    def __call__(self, images: Tensor) -> Tensor:
        self.batches.append(images.shape[0])
        return Tensor(np.tile(np.array([[0, 1, 0]], np.float32), (images.shape[0], 1)))


def pipeline(folder: Path, cpu: InEffect, batch_size: int) -> Any:
    return eval_batches(folder, load_dataset(folder), "val", RECIPES["none"], PIXELS, batch_size, cpu)


@pytest.mark.parametrize("batch_size", [1, 5, 13, 20])
def test_each_row_counts_once_whatever_the_batch_size(batch_size: int, stripes: Path, cpu: InEffect) -> None:
    network = AlwaysClassOne()
    scores = evaluate_network(network, TASK, pipeline(stripes, cpu, batch_size), batch_size, lambda: None)
    assert (scores.rows, round(13 * scores.headline)) == (13, load_dataset(stripes).splits["val"].class_rows[1])
    assert set(network.batches) == {batch_size}, "one shape, so that nothing is compiled twice"


def save_untrained(path: Path, folder: Path, classes: tuple[str, ...] = ("across", "down", "plain")) -> Path:
    mindspore.set_seed(1)
    network = find_factory("tiny", path.parent)(num_classes=len(classes))
    digest = load_dataset(folder).digest
    checkpoint.save(path, network, Meta(RunConfig("x"), classes, digest, PIXELS, epoch=1, step=1, accuracy=None))
    return path


def test_checkpoint_is_scored_with_its_own_model_and_pixels(stripes: Path, tmp_path: Path, cpu: InEffect) -> None:
    path = save_untrained(tmp_path / "best.ckpt", stripes)
    shown: list[object] = []
    found = evaluate_checkpoint(path, stripes, "val", ASKED, shown.append, lambda: None)
    assert (found.rows, found.same_data, len(shown)) == (13, True, 1)
    assert evaluate_checkpoint(tmp_path, stripes, "train", ASKED, shown.append, lambda: None).rows == 48


def test_other_data_with_the_same_classes_is_scored_and_marked(
    stripes: Path, make_set: Callable[..., Path], tmp_path: Path, cpu: InEffect
) -> None:
    path = save_untrained(tmp_path / "best.ckpt", stripes)
    found = evaluate_checkpoint(path, make_set({"val": 4}), "val", ASKED, lambda decisions: None, lambda: None)
    assert (found.rows, found.same_data) == (4, False)


def test_missing_split_is_rejected(stripes: Path, tmp_path: Path, cpu: InEffect) -> None:
    path = save_untrained(tmp_path / "best.ckpt", stripes)
    with pytest.raises(TrainerError, match="no rows in split 'test'; its splits are train, val"):
        evaluate_checkpoint(path, stripes, "test", ASKED, lambda decisions: None, lambda: None)


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        (("down", "across", "plain"), "class 0 is 'down' in the checkpoint and 'across' in"),
        (("across", "down"), "class 2 is None in the checkpoint and 'plain' in"),
        (("across", "down", "plain", "more"), "class 3 is 'more' in the checkpoint and None in"),
    ],
)
def test_other_classes_are_rejected(stripes: Path, classes: tuple[str, ...], sentence: str) -> None:
    meta = Meta(RunConfig("x"), classes, "", PIXELS, 1, 1, None)
    with pytest.raises(ContractError, match=sentence):
        check_classes(meta, load_dataset(stripes), Path("best.ckpt"), stripes)
