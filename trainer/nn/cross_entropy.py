"""The training loss of classification, as a MindSpore cell."""

from mindspore import Tensor, nn, ops
from mindspore import dtype as mstype


class SmoothedCrossEntropy(nn.Cell):  # type: ignore[misc]
    """Mean cross entropy of logits (N, classes) against int32 labels (N,), computed in float32 for any float type."""

    def __init__(self, label_smoothing: float) -> None:
        super().__init__()
        self.loss = nn.CrossEntropyLoss(label_smoothing=label_smoothing)

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, a float32 scalar."""
        return self.loss(ops.cast(logits, mstype.float32), labels)
