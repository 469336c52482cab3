"""The state of a run without its tensors, as needed for a resume. Plain data, stored as JSON."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class RunState:
    """The state of a run. `step` counts batches from its start, over all epochs and processes.

    `evaluated` is False if an epoch was trained but its evaluation was interrupted. `metrics_bytes` is the length of
    metrics.jsonl at this point; a resume drops later lines. `meter` has the measurements of the current epoch, `last`
    the report of the last whole epoch. `best_epoch` is 0 before the first evaluation; `best_accuracy` is None without
    a val split; `rise_epoch` is the last epoch with a new highest accuracy. `seconds` is the time spent so far;
    `wait_s` and `work_s` are the seconds of waiting for data and of training in whole epochs, over `timed_steps`.
    `ranks` has the host and the own times of each rank, if there are several.
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
        """Return the form stored in a checkpoint."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "RunState":
        """Parse the stored form; raise ValueError or TypeError if it is invalid."""
        return cls(**json.loads(text))

    def improves(self, epoch: int, accuracy: float | None) -> bool:
        """Record an epoch's val accuracy; return True if it is the best so far, or equal to it.

        Without a val split every epoch is the best so far.
        """
        before = self.best_accuracy
        if accuracy is None or before is None or accuracy > before:
            self.rise_epoch = epoch
        elif accuracy < before:
            return False
        self.best_epoch, self.best_accuracy = epoch, accuracy
        return True

    def add_times(self, wait_s: float, work_s: float, steps: int) -> None:
        """Add the times of an epoch in seconds, without evaluation."""
        self.wait_s += wait_s
        self.work_s += work_s
        self.timed_steps += steps

    def is_over(self, total_steps: int, steps: int, patience: int | None) -> bool:
        """Return True if all steps are trained and evaluated, or val has not improved for `patience` epochs.

        `steps` is the length of an epoch.
        """
        if self.step == 0 or self.step % steps or not self.evaluated:
            return False
        stale = self.step // steps - self.rise_epoch
        return self.step >= total_steps or (patience is not None and stale >= patience)
