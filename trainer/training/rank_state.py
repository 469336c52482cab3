"""The state that differs between the ranks of a run, gathered for the one checkpoint that rank 0 writes.

One file holds the state of all ranks, so no kill leaves a mix of two steps. Gradients are reduced, so weights,
optimizer and loss scale are equal on all ranks; BatchNorm's statistics differ between two evaluations. Which parameters
differ is found by digests, so a parameter of a user's own cell is stored too.
"""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from mindspore import Parameter, Tensor
from numpy.typing import NDArray

from trainer.nn.all_reduce import Gather
from trainer.runs.checkpoint import TRAINING, Training
from trainer.runs.result import slow_feed
from trainer.runs.state import RunState
from trainer.training.meter import ENOUGH_STEPS, share_of_waiting

DIGEST_BYTES = 16
OWN_TIMES = ("meter", "wait_s", "work_s", "timed_steps")  # fields of RunState that each rank measures itself


def gather_differences(parameters: Mapping[str, Parameter], gather: Gather) -> list[dict[str, NDArray[Any]]]:
    """Return for each rank the values of the parameters that are not equal on all ranks. Every rank must call this."""
    digests = gather(b"".join(_digest(parameter) for parameter in parameters.values()))
    starts = range(0, len(digests[0]), DIGEST_BYTES)
    distinct = [len({row[start : start + DIGEST_BYTES] for row in digests}) > 1 for start in starts]
    names = [name for name, differs in zip(parameters, distinct, strict=True) if differs]
    own = {name: parameters[name].asnumpy() for name in names}
    rows = gather(b"".join(value.tobytes() for value in own.values()))
    return [_unpacked(row, own) for row in rows]


def _digest(parameter: Parameter) -> bytes:
    return hashlib.blake2b(parameter.asnumpy().tobytes(), digest_size=DIGEST_BYTES).digest()


def _unpacked(row: bytes, like: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    values, start = {}, 0
    for name, value in like.items():
        values[name] = np.frombuffer(row, value.dtype, value.size, start).reshape(value.shape)
        start += value.nbytes
    return values


def gather_times(state: RunState, gather: Gather) -> list[dict[str, Any]]:
    """Return for each rank its host and the times in its state. Every rank must call this."""
    own = {"host": platform.node(), **{name: getattr(state, name) for name in OWN_TIMES}}
    return [json.loads(row) for row in gather(json.dumps(own).encode())]


def take_times(state: RunState, rank: int, ranks: int) -> None:
    """Give `state`, which rank 0 saved, the times of `rank`.

    With another number of ranks than before, the times of whole epochs start again at 0.
    """
    if len(state.ranks) == ranks:
        own = state.ranks[rank]
        state.meter, state.wait_s, state.work_s = own["meter"], own["wait_s"], own["work_s"]
        state.timed_steps = own["timed_steps"]
    elif ranks > 1 or state.ranks:
        state.wait_s, state.work_s, state.timed_steps = 0.0, 0.0, 0
    if ranks == 1:
        state.ranks = []


def waits(state: RunState) -> list[dict[str, Any]]:
    """Return rank, host and data wait of each rank, for result.json; empty with one rank."""
    shares = [share_of_waiting(own["wait_s"], own["work_s"]) for own in state.ranks]
    return [
        {"rank": rank, "host": own["host"], "data_wait": None if share is None else round(share, 4)}
        for rank, (own, share) in enumerate(zip(state.ranks, shares, strict=True))
    ]


def slow_rank(state: RunState) -> str | None:
    """Return a sentence about the rank that holds up the others by its feed, if enough steps were timed."""
    return slow_feed(waits(state)) if state.timed_steps >= ENOUGH_STEPS else None


def own_values(weights: Mapping[str, Any], training: Training, rank: int, ranks: int) -> dict[str, Any]:
    """Return the parameters of `rank` that replace those of rank 0 when a checkpoint is loaded.

    With another number of ranks than before, all take the means over the ranks before, as in an evaluation.
    """
    others = training.others
    if len(others) + 1 == ranks:
        return dict(others[rank - 1]) if rank else {}
    first = {**weights, **{TRAINING + name: value for name, value in training.parameters.items()}}
    names = others[0] if others else ()
    return {name: _mean([each[name].asnumpy() for each in (first, *others)]) for name in names}


def _mean(values: Sequence[NDArray[Any]]) -> Tensor:
    if not np.issubdtype(values[0].dtype, np.floating):
        return Tensor(values[0])
    return Tensor(np.mean([value.astype(np.float64) for value in values], axis=0).astype(values[0].dtype))
