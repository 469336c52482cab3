"""The training losses."""

import numpy as np
import pytest
from mindspore import Tensor

from trainer.nn.cross_entropy import BinaryCrossEntropy, SmoothedCrossEntropy
from trainer.nn.tasks.classification import cross_entropy
from trainer.nn.tasks.multilabel import binary_cross_entropy

pytestmark = pytest.mark.slow

LOGITS = np.array([[2.0, -1.0, 0.5], [-3.0, 4.0, -0.5]], np.float32)


def test_class_weights_weigh_each_row_by_its_label() -> None:
    labels, weights = np.array([0, 2], np.int32), [1.0, 1.0, 3.0]
    loss = SmoothedCrossEntropy(0.0, weights)(Tensor(LOGITS), Tensor(labels)).asnumpy()
    each = cross_entropy(LOGITS, labels)
    assert loss == pytest.approx((each[0] + 3 * each[1]) / 4, rel=1e-5)


def test_binary_cross_entropy_is_that_of_the_scores() -> None:
    targets = np.array([[1, 0, 0], [0, 1, 1]], np.int32)
    loss = BinaryCrossEntropy(0.0)(Tensor(LOGITS), Tensor(targets)).asnumpy()
    assert loss == pytest.approx(binary_cross_entropy(LOGITS, targets).mean(), rel=1e-5)
