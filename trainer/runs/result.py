"""What a run came to; its file in the run folder is written last."""

import json
from dataclasses import asdict, dataclass

MANY_SKIPPED = 0.1  # share of the updates from which on a run ends with a warning
HARDLY_MOVED = 0.9  # share from which on it ends with exit code 1


@dataclass(frozen=True)
class TrainResult:
    """What a run came to. Accuracies are those on val, None without one; `run` is the run's folder.

    `epochs` and `steps` are those trained, fewer than asked for when val stopped improving. `seconds` counts all
    processes of the run. `data_wait` is the share of the training time, evaluation apart, that went by waiting for
    data; `bound` is what limited the run: feed, compute or balanced. Both are None where that was not seen, and so is
    `images_per_s`. Of the `updates` so many were `skipped` because a gradient overflowed; `warning` says so when they
    were many.
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

    @property
    def learnt(self) -> bool:
        """Whether the weights moved in a fair share of the updates. The run is complete either way."""
        return self.skipped < HARDLY_MOVED * max(self.updates, 1)

    def to_json(self) -> str:
        """The content of result.json."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "TrainResult":
        """Read the content of result.json; raises ValueError or TypeError when it is something else."""
        return cls(**json.loads(text))


def warn_of_skipped(skipped: int, updates: int, advice: str) -> str | None:
    """The warning of a run of which many updates were left out because gradients overflowed; None for few.

    A dynamic loss scale skips a few while it finds its size, which is no reason to warn.
    """
    share = skipped / max(updates, 1)
    if share < MANY_SKIPPED:
        return None
    what = "the weights have hardly moved" if share >= HARDLY_MOVED else "the run has learnt less than it shows"
    return f"{skipped} of {updates} updates were skipped because gradients overflowed, so {what}; {advice}"
