"""Where a run stands: all that a resumed run must know and that is no tensor. Plain data, stored as JSON."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class RunState:
    """The place of a run. `step` counts batches from its start, over all epochs and all processes.

    `evaluated` is False when an epoch was trained to its end but its evaluation was cut off. `metrics_bytes` is the
    length of metrics.jsonl at this point: what was written later, by a process that was then killed, is done again.
    `meter` is the part of an epoch that was measured so far, `last` the report of the last whole epoch. `best_epoch`
    is 0 before the first evaluation; `best_accuracy` None without a val split; `rise_epoch` is the last epoch whose
    accuracy was higher than all before. `seconds` is the time spent so far; `wait_s` of it
    and `work_s` are what waiting for data and training took in the whole epochs, over `timed_steps`.
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

    def to_json(self) -> str:
        """The form in which it is stored inside a checkpoint."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "RunState":
        """Read the stored form; raises ValueError or TypeError when it is something else."""
        return cls(**json.loads(text))

    def improves(self, epoch: int, accuracy: float | None) -> bool:
        """Take note of an epoch's val accuracy; true when it is the best. Without a val split the last epoch is best.

        Of equals the later one is kept: it has seen more.
        """
        before = self.best_accuracy
        if accuracy is None or before is None or accuracy > before:
            self.rise_epoch = epoch
        elif accuracy < before:
            return False
        self.best_epoch, self.best_accuracy = epoch, accuracy
        return True

    def add_times(self, wait_s: float, work_s: float, steps: int) -> None:
        """Add what was timed of an epoch, evaluation apart."""
        self.wait_s += wait_s
        self.work_s += work_s
        self.timed_steps += steps

    def is_over(self, total_steps: int, steps: int, patience: int | None) -> bool:
        """Whether nothing is left to do: all steps are trained and evaluated, or val has not improved for too long.

        `steps` is the length of an epoch; `patience` counts the epochs since the last rise.
        """
        if self.step == 0 or self.step % steps or not self.evaluated:
            return False
        stale = self.step // steps - self.rise_epoch
        return self.step >= total_steps or (patience is not None and stale >= patience)
