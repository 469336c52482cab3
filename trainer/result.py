"""What a run came to; its file in the run folder is written last."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class TrainResult:
    """What a run came to. Accuracies are those on val, None without one; `run` is the run's folder.

    `epochs` and `steps` are those trained, fewer than asked for when val stopped improving. `seconds` counts all
    processes of the run. `data_wait` is the share of the training time, evaluation apart, that went by waiting for
    data; `bound` is what limited the run: feed, compute or balanced. Both are None where that was not seen.
    """

    run: str
    best_checkpoint: str
    best_epoch: int
    best_accuracy: float | None
    last_accuracy: float | None
    epochs: int
    steps: int
    seconds: float
    images_per_s: float
    dataset_digest: str
    data_wait: float | None = None
    bound: str | None = None

    def to_json(self) -> str:
        """The content of result.json."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "TrainResult":
        """Read the content of result.json; raises ValueError or TypeError when it is something else."""
        return cls(**json.loads(text))
