"""The state of several ranks in one checkpoint, with the exchange between them replaced by a list."""

from typing import Any

import numpy as np
import pytest
from mindspore import Parameter, Tensor

from trainer.runs.checkpoint import TRAINING, Training
from trainer.runs.state import RunState
from trainer.training.rank_state import gather_differences, own_values, take_times, waits

pytestmark = pytest.mark.slow


class Exchange:
    """Returns what this rank passes, and what rank 1 would pass."""

    def __init__(self, other: dict[str, Parameter]) -> None:
        self.other = other
        self.sent: list[bytes] = []

    def __call__(self, own: bytes) -> list[bytes]:
        self.sent.append(own)
        return [own, self.answer()]

    def answer(self) -> bytes:
        first = Recorder()
        with pytest.raises(StopIteration):
            gather_differences(self.other, first)  # type: ignore[arg-type]
        return first.sent if len(self.sent) == 1 else self.other["b"].asnumpy().tobytes()


class Recorder:
    """Records the first message."""

    def __call__(self, own: bytes) -> list[bytes]:
        self.sent = own
        raise StopIteration


def parameters(b: list[float]) -> dict[str, Parameter]:
    values = {"a": [1.0, 2.0], "b": b, "c": [[3.0]]}
    return {name: Parameter(Tensor(np.array(value, np.float32)), name=name) for name, value in values.items()}


def test_only_parameters_that_differ_are_gathered_bit_by_bit() -> None:
    own, other = [-0.0, 1.5, 2.0], [0.0, float("nan"), 2.0]
    exchange: Any = Exchange(parameters(other))
    ranks = gather_differences(parameters(own), exchange)
    assert [list(values) for values in ranks] == [["b"], ["b"]]
    expected = [np.array(values, np.float32).tobytes() for values in (own, other)]
    assert [values["b"].tobytes() for values in ranks] == expected


def tensors(**values: float) -> dict[str, Tensor]:
    return {name: Tensor(np.array([value], np.float32)) for name, value in values.items()}


def test_each_rank_takes_its_own_values_and_another_number_of_ranks_their_mean() -> None:
    others = [
        {**tensors(mean=2.0), TRAINING + "count": Tensor([5])},
        {**tensors(mean=6.0), TRAINING + "count": Tensor([6])},
    ]
    training = Training({"count": Tensor([4])}, RunState(), others)

    def values(rank: int, ranks: int) -> dict[str, list[float]]:
        own = own_values(tensors(mean=1.0, weight=9.0), training, rank, ranks)
        return {name: value.asnumpy().tolist() for name, value in own.items()}

    assert values(0, 3) == {}
    assert values(2, 3) == {"mean": [6.0], "training:count": [6]}
    assert values(0, 1) == values(1, 2) == {"mean": [3.0], "training:count": [4]}


def test_rank_takes_its_own_times_and_starts_at_0_with_another_number_of_ranks() -> None:
    times = [
        {"host": f"h{rank}", "meter": {"steps": 3.0}, "wait_s": rank, "work_s": 1.0, "timed_steps": 2}
        for rank in (0, 1)
    ]
    state = RunState(meter={"steps": 3.0}, wait_s=7.0, ranks=times)
    assert [entry["data_wait"] for entry in waits(state)] == [0.0, 0.5]
    take_times(state, 1, 2)
    assert (state.wait_s, state.work_s, state.timed_steps) == (1, 1.0, 2)
    take_times(state, 0, 1)
    assert (state.wait_s, state.meter, state.ranks) == (0.0, {"steps": 3.0}, [])
