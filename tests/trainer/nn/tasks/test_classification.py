import numpy as np
import pytest
from mindspore import Tensor

from trainer.nn.cross_entropy import SmoothedCrossEntropy
from trainer.nn.tasks.classification import ClassScores, score

pytestmark = pytest.mark.slow


def test_score_counts_hits_and_sums_the_loss_over_rows() -> None:
    logits = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]], np.float32))
    scores = score(logits, np.array([0, 1], np.int32))
    assert (scores.rows, scores.correct) == (2, 1)
    assert scores.loss_sum == pytest.approx(-np.log(0.5) - np.log(0.1), rel=1e-6)


def test_score_of_huge_float16_logits_does_not_overflow() -> None:
    assert score(np.array([[60000, -60000]], np.float16), np.array([1], np.int32)).loss == 120000


def test_scores_of_parts_add_up_to_that_of_the_whole() -> None:
    logits = np.random.default_rng(0).normal(size=(7, 3))
    labels = np.array([0, 1, 2, 0, 1, 2, 0], np.int32)
    parts = score(logits[:5], labels[:5]) + score(logits[5:], labels[5:])
    whole = score(logits, labels)
    assert (parts.rows, parts.correct) == (7, whole.correct)
    assert parts.loss == pytest.approx(whole.loss)
    assert parts + ClassScores() == parts


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_is_cross_entropy_with_smoothed_labels(smoothing: float, cpu: object) -> None:
    logits = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    labels = np.array([2, 0, 1, 1], np.int32)
    target = np.eye(3)[labels] * (1 - smoothing) + smoothing / 3
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    loss = SmoothedCrossEntropy(smoothing)(Tensor(logits), Tensor(labels))
    assert float(loss.asnumpy()) == pytest.approx(-(target * log_p).sum(1).mean(), rel=1e-5)
