from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mindspore import Tensor

from schemas.dataset import load_dataset
from trainer.device.context import InEffect
from trainer.feed import pipeline
from trainer.feed.mixing import Mixer
from trainer.feed.recipes import RECIPES, Pixels, Recipe
from trainer.nn.cross_entropy import SmoothedCrossEntropy

pytestmark = pytest.mark.slow

PIXELS = Pixels(32, (100.0,) * 3, (30.0,) * 3)
LABELS = np.arange(6) % 3


def numbered() -> Any:
    """Six images, each of its own number throughout."""
    return np.broadcast_to(np.arange(6, dtype=np.float32)[:, None, None, None], (6, 3, 16, 16)).copy()


def train(folder: Path, cpu: InEffect, recipe: Recipe, skip: int = 0) -> list[tuple[Any, Any]]:
    batches = pipeline.train_batches(folder, load_dataset(folder), recipe, PIXELS, 8, cpu)
    if skip:
        batches.set_init_step(skip)
    iterator = batches.create_tuple_iterator(num_epochs=2, output_numpy=True)
    return [pair for epoch in range(skip // 6, 2) for pair in iterator]


def test_mixup_weights_images_and_labels_alike() -> None:
    images, labels = Mixer(3, 0.4, 0.0, 0).mix(numbered(), LABELS, np.random.default_rng(0))
    share = images[0, 0, 0, 0] / -5 + 1
    assert 0 < share < 1
    np.testing.assert_allclose(images[:, 0, 0, 0], share * np.arange(6) + (1 - share) * np.arange(5, -1, -1), atol=1e-5)
    np.testing.assert_allclose(labels[0], [share, 0, 1 - share], atol=1e-6)
    np.testing.assert_allclose(labels[1], [0, 1, 0], atol=1e-6)


def test_cutmix_weights_labels_by_the_area_of_the_box() -> None:
    draw, mixer, boxes = np.random.default_rng(1), Mixer(3, 0.0, 1.0, 0), 0
    for _ in range(20):
        images, labels = mixer.mix(numbered(), LABELS, draw)
        own = images[0, 0] == 0
        assert set(np.unique(images[0])) <= {0, 5}
        assert labels[0, 0] == pytest.approx(own.mean())
        assert labels[0, 2] == pytest.approx(1 - own.mean())
        rows, columns = np.nonzero(~own)
        assert len(rows) == len(set(rows)) * len(set(columns)), "a rectangle"
        boxes += len(rows) > 0
    assert boxes > 10


@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_weight_has_the_beta_distribution_of_alpha(alpha: float) -> None:
    draw = np.random.default_rng(2)
    shares = [Mixer(3, alpha, 0.0, 0).mix(numbered()[:, :, :1, :1], LABELS, draw)[1][0, 0] for _ in range(2000)]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.04)
    assert np.var(shares) == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.1)


def test_with_both_some_batches_are_cut_and_some_blended() -> None:
    draw, mixer = np.random.default_rng(3), Mixer(3, 1.0, 1.0, 0)
    blended = sum(not set(np.unique(mixer.mix(numbered(), LABELS, draw)[0][0])) <= {0, 5} for _ in range(40))
    assert 8 < blended < 32


@pytest.mark.parametrize(("mixup", "cutmix"), [(0.2, 0.0), (0.0, 1.0), (0.8, 1.0)])
def test_training_batches_carry_soft_labels_that_sum_to_one(
    mixup: float, cutmix: float, stripes: Path, cpu: InEffect
) -> None:
    batches = train(stripes, cpu, replace(RECIPES["none"], mixup=mixup, cutmix=cutmix))
    assert len(batches) == 12
    for images, labels in batches:
        assert (images.shape, images.dtype) == ((8, 3, 32, 32), np.float32)
        assert (labels.shape, labels.dtype) == ((8, 3), np.float32)
        np.testing.assert_allclose(labels.sum(1), 1, atol=1e-5)
    assert min(labels.max(1).min() for _, labels in batches) < 0.99, "some images are of two classes"


def test_resumed_pipeline_mixes_like_an_uninterrupted_one(stripes: Path, cpu: InEffect) -> None:
    recipe = replace(RECIPES["none"], mixup=0.5, cutmix=1.0)
    whole, rest = train(stripes, cpu, recipe), train(stripes, cpu, recipe, skip=7)
    assert len(rest) == 5
    for (images, labels), (images_again, labels_again) in zip(whole[7:], rest, strict=True):
        np.testing.assert_array_equal(images, images_again)
        np.testing.assert_array_equal(labels, labels_again)


def test_erasing_blanks_squares_of_several_sizes_in_some_images(stripes: Path, cpu: InEffect) -> None:
    batches = train(stripes, cpu, replace(RECIPES["none"], erasing=0.5))
    shares = [float((image == 0).mean()) for images, _ in batches for image in images]
    erased = [share for share in shares if share > 0.005]
    assert 0.25 < len(erased) / len(shares) < 0.75
    assert len({round(share, 2) for share in erased}) >= 4
    assert max(erased) < 0.4


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_takes_soft_labels_and_smooths_them(smoothing: float, cpu: InEffect) -> None:
    logits = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    soft = np.array([[1, 0, 0], [0.3, 0.7, 0], [0, 0.5, 0.5], [0, 0, 1]], np.float32)
    target = soft * (1 - smoothing) + smoothing / 3
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    loss = SmoothedCrossEntropy(smoothing)(Tensor(logits), Tensor(soft))
    assert float(loss.asnumpy()) == pytest.approx(-(target * log_p).sum(1).mean(), rel=1e-5)


def test_loss_of_hard_labels_equals_that_of_their_one_hot_form(cpu: InEffect) -> None:
    logits = Tensor(np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32))
    labels = np.array([2, 0, 1, 1], np.int32)
    loss = SmoothedCrossEntropy(0.1)
    hot = loss(logits, Tensor(np.eye(3, dtype=np.float32)[labels]))
    assert float(hot.asnumpy()) == pytest.approx(float(loss(logits, Tensor(labels)).asnumpy()), rel=1e-6)
