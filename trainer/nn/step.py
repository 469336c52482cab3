"""Training step as one cell that runs on CPU and Ascend, in graph and pynative mode."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mindspore import Parameter, ParameterTuple, Tensor, amp, nn, ops
from mindspore import dtype as mstype


@dataclass(frozen=True)
class StepOptions:
    """Options of a training step.

    The gradients of `accumulate` batches are averaged for one update. `clip_norm` is the maximum global gradient
    norm. `ema` is the decay of the averaged weights, None if weights are not averaged. `over_ranks` is the cell that
    averages loss and gradients over the ranks, None with one rank.
    """

    accumulate: int = 1
    clip_norm: float | None = None
    ema: float | None = None
    over_ranks: Any = None


class TrainStep(nn.Cell):  # type: ignore[misc]
    """Forward pass, backward pass with loss scaling, and an update if all gradients are finite.

    The cell unscales the gradients itself, so the optimizer's loss_scale stays 1. nn.TrainOneStepWithLossScaleCell does
    not run on CPU (measured on 2.10). This cell runs on CPU and yields the same weights as the step of mindspore.Model.
    `scaler` is a loss scaler of mindspore.amp, or None. `skipped` counts all skipped updates, `skipped_in_row`
    consecutive skipped updates.
    """

    def __init__(
        self, network: nn.Cell, loss: nn.Cell, optimizer: nn.Cell, scaler: Any, options: StepOptions | None = None
    ) -> None:
        super().__init__(auto_prefix=False)
        options = options or StepOptions()
        self.network = network
        self.loss = loss
        self.optimizer = optimizer
        self.scaler = scaler
        self.scaled = scaler is not None
        self.over_ranks: Any = options.over_ranks
        self.shared = self.over_ranks is not None
        if self.shared:
            self.vote = Parameter(Tensor(0.0, mstype.float32), name="stop_vote", requires_grad=False)
            self.votes = Parameter(Tensor(0.0, mstype.float32), name="stop_votes", requires_grad=False)
        self.skipped = _counter("skipped_steps")
        self.skipped_in_row = _counter("skipped_in_row")
        self.value_and_grad = ops.value_and_grad(self.forward, None, optimizer.parameters)
        self.map = ops.HyperMap()
        self.accumulate = options.accumulate
        if options.accumulate > 1:
            self.gathered = _counter("gathered")
            self.sums = _clones(optimizer.parameters, "sum", init="zeros")
        self.clip_norm = options.clip_norm
        self.ema = options.ema
        if options.ema is not None:
            floats = [p for p in network.get_parameters() if p.dtype in mstype.float_type]
            self.followed = ParameterTuple(floats)
            self.averages = _clones(floats, "ema", init="same")
            self.updates = _counter("updates")

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, multiplied by the loss scale if there is one."""
        loss = self.loss(self.network(images), labels)
        return self.scaler.scale(loss) if self.scaled else loss

    def construct(self, images: Tensor, labels: Tensor) -> Tensor:
        """Train on a batch of images, float32 (N, 3, S, S), and targets (N,); return the unscaled loss."""
        loss, gradients = self.value_and_grad(images, labels)
        if self.shared:
            # Averaged before the overflow check, so that an overflow on one rank skips the update on all ranks.
            loss, gradients, votes = self.over_ranks(loss, gradients, self.vote)
            ops.assign(self.votes, votes)
        if self.scaled:
            loss = self.scaler.unscale(loss)  # unscaled before the scaler adjusts its scale
        if self.accumulate == 1:
            return ops.depend(loss, self.update(gradients))
        self.map(_add, self.sums, gradients)
        ops.assign_add(self.gathered, Tensor(1, mstype.int32))
        if self.gathered == self.accumulate:
            share = Tensor(1.0 / self.accumulate, mstype.float32)
            self.update(self.map(ops.Partial()(_times, share), self.sums))
            self.map(_clear, self.sums)
            ops.assign(self.gathered, Tensor(0, mstype.int32))
        return loss

    def update(self, gradients: tuple[Tensor, ...]) -> Any:
        """Update the weights unless a gradient overflowed, and adjust the loss scale."""
        if not self.scaled:
            return self.move(gradients)
        finite = amp.all_finite(gradients)
        if finite:
            self.move(self.scaler.unscale(gradients))
            ops.assign(self.skipped_in_row, Tensor(0, mstype.int32))
        else:
            ops.assign_add(self.skipped, Tensor(1, mstype.int32))
            ops.assign_add(self.skipped_in_row, Tensor(1, mstype.int32))
        self.scaler.adjust(finite)
        return True

    def move(self, gradients: tuple[Tensor, ...]) -> Any:
        """Clip the gradients, update the weights, and update the averaged weights."""
        if self.clip_norm is not None:
            norm = ops.sqrt(ops.addn(self.map(_square_sum, gradients)))
            factor = ops.minimum(self.clip_norm / (norm + 1e-12), Tensor(1.0, mstype.float32))
            gradients = self.map(ops.Partial()(_times, factor), gradients)
        done = self.optimizer(gradients)
        if self.ema is not None:
            # The decay is lower at first, so that the averages forget the initial weights.
            count = ops.cast(ops.assign_add(self.updates, Tensor(1, mstype.int32)), mstype.float32)
            decay = ops.minimum((1.0 + count) / (10.0 + count), Tensor(self.ema, mstype.float32))
            done = ops.depend(done, self.map(ops.Partial()(_follow, decay), self.averages, self.followed))
        return done

    def inference_parameters(self) -> dict[str, Parameter]:
        """Return the weights for evaluation, export and checkpoints, by name: the averaged weights if EMA is on."""
        weights = {parameter.name: parameter for parameter in self.network.get_parameters()}
        if self.ema is not None:
            weights |= {p.name: average for p, average in zip(self.followed, self.averages, strict=True)}
        return weights

    def training_parameters(self) -> dict[str, Parameter]:
        """Return the remaining training state by name: optimizer state, counters, loss scale, non-averaged weights."""
        known = {id(parameter) for parameter in self.inference_parameters().values()}
        known |= {id(self.vote), id(self.votes)} if self.shared else set()
        scaler = [getattr(self.scaler, name, None) for name in ("scale_value", "counter")]
        parameters = [*self.get_parameters(), *(p for p in scaler if p is not None)]
        return {f"{p.name}": p for p in parameters if id(p) not in known}

    def vote_to_stop(self) -> None:
        """Have all ranks stop after the next step."""
        ops.assign(self.vote, Tensor(1.0, mstype.float32))

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Give the network the averaged weights, if EMA is on, during the `with` block."""
        if self.ema is None:
            yield
            return
        own = [parameter.asnumpy().copy() for parameter in self.followed]
        _fill(self.followed, [average.asnumpy().copy() for average in self.averages])
        try:
            yield
        finally:
            _fill(self.followed, own)


def _counter(name: str) -> Parameter:
    return Parameter(Tensor(0, mstype.int32), name=name, requires_grad=False)


def _clones(parameters: Any, prefix: str, init: str) -> ParameterTuple:
    clones = ParameterTuple(parameters).clone(prefix=prefix, init=init)
    for clone in clones:
        clone.requires_grad = False
    return clones


def _fill(parameters: Any, values: list[Any]) -> None:
    # Parameter.set_data after a first step corrupts the next update in pynative mode (measured on 2.10).
    for parameter, value in zip(parameters, values, strict=True):
        ops.assign(parameter, Tensor(value, parameter.dtype))


def _add(total: Tensor, gradient: Tensor) -> Any:
    return ops.depend(True, ops.assign_add(total, ops.cast(gradient, total.dtype)))


def _clear(total: Tensor) -> Any:
    return ops.depend(True, ops.assign(total, ops.zeros_like(total)))


def _times(factor: Tensor, gradient: Tensor) -> Tensor:
    return gradient * ops.cast(factor, gradient.dtype)


def _square_sum(gradient: Tensor) -> Tensor:
    wide = ops.cast(gradient, mstype.float32)
    return (wide * wide).sum()


def _follow(decay: Tensor, average: Tensor, value: Tensor) -> Any:
    return ops.depend(True, ops.assign(average, average * decay + value * (1.0 - decay)))
