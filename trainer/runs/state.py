"""State of a run that a resume needs, without tensors, stored as JSON."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class RunState:
    """State of a run. `step` counts batches from the start of the run, over all epochs and processes.

    `evaluated` is False if an epoch was trained but its evaluation was interrupted. `metrics_bytes` is the length of
    metrics.jsonl when the state was saved; a resume drops later lines. `meter` has the measurements of the current
    epoch. `last` is the report of the last complete epoch. `best_epoch` is 0 before the first evaluation.
    `best_accuracy` is None without a val split. `rise_epoch` is the last epoch with a new highest accuracy. `seconds`
    is the time spent so far. In complete epochs, `wait_s` seconds were spent waiting for data and `work_s` seconds
    training. `timed_steps` is the number of steps in `wait_s` and `work_s`. If there are several ranks, `ranks` has the
    host and the times of each.
    """

    step: int = 0
    evaluated: bool = True
    best_epoch: int = 0
    best_accuracy: float | None = None
    rise_epoch: int = 0
    metrics_bytes: int = 0
    seconds: float = 0.0
    wait_s: float = 0.0
    work_s: float = 0.0
    timed_steps: int = 0
    meter: dict[str, float] = field(default_factory=dict)
    last: dict[str, Any] = field(default_factory=dict)
    ranks: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> str:
        """Return the JSON text stored in a checkpoint."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "RunState":
        """Parse the JSON text of a state. Raises ValueError or TypeError if the text is invalid."""
        return cls(**json.loads(text))

    def improves(self, epoch: int, accuracy: float | None) -> bool:
        """Record the val accuracy of `epoch`; return True unless an earlier epoch had a higher accuracy.

        Without a val split, `accuracy` is None and every epoch counts as the best epoch so far.
        """
        before = self.best_accuracy
        if accuracy is None or before is None or accuracy > before:
            self.rise_epoch = epoch
        elif accuracy < before:
            return False
        self.best_epoch, self.best_accuracy = epoch, accuracy
        return True

    def add_times(self, wait_s: float, work_s: float, steps: int) -> None:
        """Add the waiting and training times of an epoch in seconds, without evaluation, and the epoch's steps."""
        self.wait_s += wait_s
        self.work_s += work_s
        self.timed_steps += steps

    def is_over(self, total_steps: int, steps: int, patience: int | None) -> bool:
        """Return True after the last evaluation, or if val accuracy has not improved for `patience` epochs.

        `total_steps` is the number of steps of the run, `steps` the number of steps per epoch.
        """
        if self.step == 0 or self.step % steps or not self.evaluated:
            return False
        stale = self.step // steps - self.rise_epoch
        return self.step >= total_steps or (patience is not None and stale >= patience)
