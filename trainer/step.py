"""One training step as one cell, the same on CPU and Ascend, in graph and in pynative mode."""

from typing import Any

from mindspore import Parameter, Tensor, amp, nn, ops
from mindspore import dtype as mstype


class TrainStep(nn.Cell):  # type: ignore[misc]
    """Forward, scaled backward, and an update when every gradient is finite.

    The cell unscales what it scaled, so the optimizer keeps its loss_scale of 1. nn.TrainOneStepWithLossScaleCell
    does not run on CPU (measured on 2.10); this does, and is equal to Model's own step weight for weight.
    `scaler` is one of mindspore.amp's, or None; `over_ranks` averages over the ranks of a run, None with one rank.
    `skipped` counts the steps whose update was left out.
    """

    def __init__(
        self, network: nn.Cell, loss: nn.Cell, optimizer: nn.Cell, scaler: Any, over_ranks: Any = None
    ) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.loss = loss
        self.optimizer = optimizer
        self.scaler = scaler
        self.scaled = scaler is not None
        self.over_ranks = over_ranks
        self.shared = over_ranks is not None
        self.skipped = Parameter(Tensor(0, mstype.int32), name="skipped_steps", requires_grad=False)
        self.value_and_grad = ops.value_and_grad(self.forward, None, optimizer.parameters)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """The loss, times the loss scale when there is one."""
        loss = self.loss(self.network(images), labels)
        return self.scaler.scale(loss) if self.scaled else loss

    def construct(self, images: Tensor, labels: Tensor) -> Tensor:
        """Train on a batch of float32 (N, 3, S, S) and int32 (N,); returns its loss, unscaled."""
        loss, gradients = self.value_and_grad(images, labels)
        if self.shared:
            # Before the gradients are judged: an overflow on one rank must skip the update on all.
            loss, gradients = self.over_ranks(loss, gradients)
        if not self.scaled:
            return ops.depend(loss, self.optimizer(gradients))
        finite = amp.all_finite(gradients)
        if finite:
            self.optimizer(self.scaler.unscale(gradients))
        else:
            ops.assign_add(self.skipped, Tensor(1, mstype.int32))
        loss = self.scaler.unscale(loss)
        self.scaler.adjust(finite)
        return loss
