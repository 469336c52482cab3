"""Training losses as MindSpore cells."""

from collections.abc import Sequence

from mindspore import Tensor, nn, ops
from mindspore import dtype as mstype


class SmoothedCrossEntropy(nn.Cell):  # type: ignore[misc]
    """Mean cross entropy of logits (N, classes) against int32 labels (N,), computed in float32 for any float type.

    With `class_weights`, it is the mean weighted by the label's weight.
    """

    def __init__(self, label_smoothing: float, class_weights: Sequence[float] | None = None) -> None:
        super().__init__()
        weight = None if class_weights is None else Tensor(list(class_weights), mstype.float32)
        self.loss = nn.CrossEntropyLoss(weight, label_smoothing=label_smoothing)

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, a float32 scalar."""
        return self.loss(ops.cast(logits, mstype.float32), labels)


class BinaryCrossEntropy(nn.Cell):  # type: ignore[misc]
    """Mean binary cross entropy of logits (N, classes) against multi-hot int32 targets (N, classes), in float32.

    Label smoothing moves each target towards 0.5.
    """

    def __init__(self, label_smoothing: float) -> None:
        super().__init__()
        self.smoothing = label_smoothing

    def construct(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the loss, a float32 scalar."""
        wide = ops.cast(logits, mstype.float32)
        goals = ops.cast(targets, mstype.float32) * (1 - self.smoothing) + self.smoothing / 2
        losses = ops.maximum(wide, 0.0) - wide * goals + ops.log1p(ops.exp(-ops.abs(wide)))
        return losses.mean()
