"""Loss, throughput and data wait of an epoch. The caller passes all times; this module reads no clock."""

from dataclasses import dataclass

MARGIN = 0.10
NEGLIGIBLE_WAIT = 0.03  # largest share of waiting in a compute-bound run
ENOUGH_STEPS = 50  # in fewer steps, batches prefetched during compilation hide a slow feed
FEED, COMPUTE, BALANCED = "feed", "compute", "balanced"
BOUNDS = (FEED, COMPUTE, BALANCED)


@dataclass(frozen=True)
class WaitReport:
    """Bottleneck (feed, compute or balanced) and data wait (0..1) of a run. With data sinking, both values are None."""

    bound: str | None
    data_wait: float | None
    device: str


class Meter:
    """Measurements of the current epoch. All times are in seconds.

    The first step of a process compiles, so throughput and wait exclude it. With data sinking (`sunk`) the wait cannot
    be measured, because the device fetches its own batches.
    """

    def __init__(self, batch_size: int, sunk: bool = False) -> None:
        self.batch_size = batch_size
        self.sunk = sunk
        self.compiled = False
        self.epoch_begin(0.0)

    def epoch_begin(self, now: float) -> None:
        """Reset all measurements, and start the clock at time `now`."""
        self._began = self._free = self._busy = now
        self.steps = self._timed_steps = self._losses = 0
        self._wait_s = self._work_s = self._loss_sum = 0.0

    def measured(self) -> dict[str, float]:
        """Return the measurements of the current epoch, for a checkpoint, or an empty dict before the first step."""
        if not self.steps:
            return {}
        sums = {"steps": self.steps, "timed_steps": self._timed_steps, "losses": self._losses}
        times = {"wait_s": self._wait_s, "work_s": self._work_s, "elapsed_s": self.elapsed_s}
        return {**sums, **times, "loss_sum": self._loss_sum}

    def resume(self, measured: dict[str, float]) -> None:
        """Continue the measurements of an earlier process in this epoch. Call this method right after epoch_begin."""
        if not measured:
            return
        self.steps, self._timed_steps = int(measured["steps"]), int(measured["timed_steps"])
        self._losses, self._loss_sum = int(measured["losses"]), measured["loss_sum"]
        self._wait_s, self._work_s = measured["wait_s"], measured["work_s"]
        self._began -= measured["elapsed_s"]

    def saved(self, now: float) -> None:
        """Start waiting for the next batch again: the time since the last step was spent on a checkpoint."""
        self._began += now - self._free
        self._free = now

    def step_begin(self, now: float) -> None:
        """Record that the batch arrived at time `now`."""
        self._busy = now

    def step_end(self, now: float, loss: float, steps: int = 1) -> None:
        """Count `steps` steps as done, several with data sinking. `loss` is the loss of the last step."""
        self._losses += 1
        self._loss_sum += loss  # in step order, so that a resumed epoch has the same sum
        self.steps += steps
        if self.compiled:
            self._wait_s += self._busy - self._free
            self._work_s += now - self._busy
            self._timed_steps += steps
        self.compiled = True
        self._free = now

    @property
    def loss(self) -> float:
        """Mean loss of the current epoch."""
        return self._loss_sum / self._losses

    @property
    def elapsed_s(self) -> float:
        """Seconds from the start of the epoch to the end of its last step."""
        return self._free - self._began

    @property
    def images_per_s(self) -> float | None:
        """Images per second in the current epoch, or None before the first timed step."""
        seconds = self._wait_s + self._work_s
        return self._timed_steps * self.batch_size / seconds if seconds > 0 else None

    @property
    def rounded_images_per_s(self) -> float | None:
        """Images per second with one decimal, as stored in files."""
        return None if self.images_per_s is None else round(self.images_per_s, 1)

    @property
    def data_wait(self) -> float | None:
        """Share of the time spent waiting for data, near 0 if compute-bound, or None if not measured."""
        return None if self.sunk else share_of_waiting(self._wait_s, self._work_s)

    @property
    def times(self) -> tuple[float, float, int]:
        """Seconds of waiting, seconds of work, and the number of timed steps."""
        return self._wait_s, self._work_s, self._timed_steps


def share_of_waiting(wait_s: float, work_s: float) -> float | None:
    """Return the share of waiting, wait_s / (wait_s + work_s), or None if no step was timed."""
    return wait_s / (wait_s + work_s) if wait_s + work_s > 0 else None


def judge_wait(share: float | None, steps: int) -> str | None:
    """Return the bottleneck of a run from the `share` of waiting, or None after too few timed `steps`."""
    if share is None or steps < ENOUGH_STEPS:
        return None
    if share <= NEGLIGIBLE_WAIT:
        return COMPUTE
    return BALANCED if share <= MARGIN else FEED
