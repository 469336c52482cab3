"""Loss, throughput and data wait of an epoch. Times are passed in; nothing here reads a clock."""

MARGIN = 0.10
NEGLIGIBLE_WAIT = 0.03  # share of the time that a compute-bound run waits
ENOUGH_STEPS = 50  # before that, batches prefetched while the first step compiled hide a slow feed
FEED, COMPUTE, BALANCED = "feed", "compute", "balanced"
DOCTOR = "'trainer doctor' with the same options"
UNMEASURED = f"bottleneck: cannot be measured while data sinking is on; {DOCTOR} measures it"
REMEDIES = {
    FEED: f"{DOCTOR} tries --workers, --prefetch and smaller shards",
    BALANCED: f"{DOCTOR} tries faster settings for both",
    COMPUTE: f"{DOCTOR} tries --amp-level and --batch-size",
}


class Meter:
    """Measures one epoch at a time, from times in seconds.

    The first step of a process compiles, so throughput and wait exclude it. With data sinking (`sunk`) the wait cannot
    be measured: the device fetches its own batches.
    """

    def __init__(self, batch_size: int, sunk: bool = False) -> None:
        self.batch_size = batch_size
        self.sunk = sunk
        self.compiled = False
        self.epoch_begin(0.0)

    def epoch_begin(self, now: float) -> None:
        """Reset, and start waiting for the first batch."""
        self._began = self._free = self._busy = now
        self.steps = self._timed_steps = self._losses = 0
        self._wait_s = self._work_s = self._loss_sum = 0.0

    def measured(self) -> dict[str, float]:
        """Return the measurements of the epoch so far, for a checkpoint; empty before the first step."""
        if not self.steps:
            return {}
        sums = {"steps": self.steps, "timed_steps": self._timed_steps, "losses": self._losses}
        times = {"wait_s": self._wait_s, "work_s": self._work_s, "elapsed_s": self.elapsed_s}
        return {**sums, **times, "loss_sum": self._loss_sum}

    def resume(self, measured: dict[str, float]) -> None:
        """Continue from what an earlier process measured of this epoch. Call right after epoch_begin."""
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
        """Stop waiting: the batch is here."""
        self._busy = now

    def step_end(self, now: float, loss: float, steps: int = 1) -> None:
        """Count `steps` steps as done, more than one with data sinking; `loss` is that of the last."""
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
        """Mean of the losses reported so far."""
        return self._loss_sum / self._losses

    @property
    def elapsed_s(self) -> float:
        """Seconds from the start of the epoch to the end of its last step."""
        return self._free - self._began

    @property
    def images_per_s(self) -> float | None:
        """Throughput of the epoch so far; None before the first timed step."""
        seconds = self._wait_s + self._work_s
        return self._timed_steps * self.batch_size / seconds if seconds > 0 else None

    @property
    def rounded_images_per_s(self) -> float | None:
        """Throughput as it is stored, with one decimal."""
        return None if self.images_per_s is None else round(self.images_per_s, 1)

    @property
    def data_wait(self) -> float | None:
        """Share of the time spent waiting for data: near 0 if compute-bound. None if not measured."""
        return None if self.sunk else share_of_waiting(self._wait_s, self._work_s)

    @property
    def times(self) -> tuple[float, float, int]:
        """Seconds of waiting, seconds of work, and the number of timed steps."""
        return self._wait_s, self._work_s, self._timed_steps


def share_of_waiting(wait_s: float, work_s: float) -> float | None:
    """Return wait / (wait + work), or None if nothing was timed."""
    return wait_s / (wait_s + work_s) if wait_s + work_s > 0 else None


def bottleneck(bound: str, share: float, device: str) -> str:
    """Return the sentence that ends a run: its bottleneck, and where to find a remedy."""
    stage = {FEED: "data feed", BALANCED: "data feed and training step about equally", COMPUTE: "training step"}[bound]
    # On CPU a feed thread may occupy the core that the step needs, and then nobody waits for data.
    estimate = " (estimate: on CPU both use the same cores)" if device == "CPU" and bound != FEED else ""
    return f"bottleneck: {stage}{estimate}; waited for data {share:.0%} of the time; {REMEDIES[bound]}"


def judge_wait(share: float | None, steps: int) -> str | None:
    """Return the bottleneck of a run that waited for data for `share` of its time; None after too few steps."""
    if share is None or steps < ENOUGH_STEPS:
        return None
    if share <= NEGLIGIBLE_WAIT:
        return COMPUTE
    return BALANCED if share <= MARGIN else FEED
