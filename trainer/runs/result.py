"""Result of a run, stored in result.json, the last file that a run writes."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

MANY_SKIPPED = 0.1  # fraction of skipped updates at which a run ends with a warning
MUCH_LONGER = 0.1  # fraction of the time that one rank waits for data, in addition to that of the median rank
HARDLY_MOVED = 0.9  # fraction of skipped updates at which a run ends with exit code 1


@dataclass(frozen=True)
class TrainResult:
    """Result of a run in the folder `run`. Accuracies are val accuracies, None without a val split.

    `epochs` and `steps` count trained epochs and steps, fewer than requested after early stopping. `seconds` is the
    total time of all processes of the run. `data_wait` is the fraction of the training time, without evaluation, spent
    waiting for data. `bound` is the bottleneck: feed, compute or balanced. `images_per_s`, `data_wait` and `bound` are
    None if not measured. `updates` counts all updates, `skipped` the updates that were skipped because a gradient
    overflowed. `warning` is set if many updates were skipped. If there are several ranks, `ranks` has the number, host
    and data_wait of each.
    """

    run: str
    best_checkpoint: str
    best_epoch: int
    best_accuracy: float | None
    last_accuracy: float | None
    epochs: int
    steps: int
    seconds: float
    images_per_s: float | None
    dataset_digest: str
    data_wait: float | None = None
    bound: str | None = None
    updates: int = 0
    skipped: int = 0
    warning: str | None = None
    ranks: list[dict[str, Any]] = field(default_factory=list)

    @property
    def learnt(self) -> bool:
        """True if enough updates were applied. A run without enough updates is complete too."""
        return self.skipped < HARDLY_MOVED * max(self.updates, 1)

    def to_json(self) -> str:
        """Return the content of result.json."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "TrainResult":
        """Parse the content of result.json. Raises ValueError or TypeError if the content is invalid."""
        return cls(**json.loads(text))


def slow_feed(ranks: Sequence[dict[str, Any]]) -> str | None:
    """Return a sentence about the rank that waited for data longest, if much longer than the median rank."""
    waits = sorted(entry["data_wait"] for entry in ranks if entry["data_wait"] is not None)
    if len(waits) < 2:
        return None
    slow = max((entry for entry in ranks if entry["data_wait"] is not None), key=lambda entry: entry["data_wait"])
    usual = waits[(len(waits) - 1) // 2]
    if slow["data_wait"] - usual <= MUCH_LONGER:
        return None
    return (
        f"rank {slow['rank']} on {slow['host']} waited for data {slow['data_wait']:.0%} of the time, the others about "
        f"{usual:.0%}: its feed holds up all ranks; check the storage and the load of that host"
    )


def warn_of_skipped(skipped: int, updates: int, advice: str) -> str | None:
    """Return a warning if many updates were skipped because of overflows, else None.

    The warning ends with `advice`. A few skipped updates are normal while a dynamic loss scale adapts.
    """
    share = skipped / max(updates, 1)
    if share < MANY_SKIPPED:
        return None
    effect = "the weights have hardly changed" if share >= HARDLY_MOVED else "the model has learnt less than expected"
    return f"{skipped} of {updates} updates were skipped because gradients overflowed, so {effect}; {advice}"
