"""Measures an epoch: loss, throughput, and the share of time in which the device waits for data. Pure of clocks."""

MARGIN = 0.10
NEGLIGIBLE_WAIT = 0.03  # of the time: what a run shows that is far from being short of data
ENOUGH_STEPS = 50  # before that the batches which were ready when the first step had compiled hide a slow feed
FEED, COMPUTE, BALANCED = "feed", "compute", "balanced"
SUNK = "limit: not seen, since the device fetches its own batches; 'trainer doctor' with the same options measures it"
REMEDIES = {
    FEED: "'trainer doctor' with the same options tries --workers, --prefetch and smaller shards",
    BALANCED: "'trainer doctor' with the same options tries what both might gain from",
    COMPUTE: "'trainer doctor' with the same options tries --amp-level and --batch-size",
}


class Meter:
    """Fed with times in seconds. The first step of a run compiles, so it does not count for throughput and wait.

    Where the device fetches its own batches (`sunk`) it waits where no clock of the program's sees it.
    """

    def __init__(self, batch_size: int, sunk: bool = False) -> None:
        self.batch_size = batch_size
        self.sunk = sunk
        self.compiled = False
        self.epoch_begin(0.0)

    def epoch_begin(self, now: float) -> None:
        """Start afresh; waiting for the first batch counts from here."""
        self._began = self._free = self._busy = now
        self.steps = self._timed_steps = self._losses = 0
        self._wait_s = self._work_s = self._loss_sum = 0.0

    def measured(self) -> dict[str, float]:
        """The epoch so far, for a checkpoint; empty when nothing was measured."""
        if not self.steps:
            return {}
        sums = {"steps": self.steps, "timed_steps": self._timed_steps, "losses": self._losses}
        times = {"wait_s": self._wait_s, "work_s": self._work_s, "elapsed_s": self.elapsed_s}
        return {**sums, **times, "loss_sum": self._loss_sum}

    def go_on(self, measured: dict[str, float]) -> None:
        """Count on from what an earlier process measured of this epoch; right after epoch_begin."""
        if not measured:
            return
        self.steps, self._timed_steps = int(measured["steps"]), int(measured["timed_steps"])
        self._losses, self._loss_sum = int(measured["losses"]), measured["loss_sum"]
        self._wait_s, self._work_s = measured["wait_s"], measured["work_s"]
        self._began -= measured["elapsed_s"]

    def step_begin(self, now: float) -> None:
        """The batch has come."""
        self._busy = now

    def step_end(self, now: float, loss: float, steps: int = 1) -> None:
        """`steps` steps are done: more than one when the device sinks them."""
        self._losses += 1
        self._loss_sum += loss  # one by one, so that a resumed epoch adds in the same order
        self.steps += steps
        if self.compiled:
            self._wait_s += self._busy - self._free
            self._work_s += now - self._busy
            self._timed_steps += steps
        self.compiled = True
        self._free = now

    @property
    def loss(self) -> float:
        """Mean loss of the steps seen."""
        return self._loss_sum / self._losses

    @property
    def elapsed_s(self) -> float:
        """From the epoch's begin to the end of its last step."""
        return self._free - self._began

    @property
    def images_per_s(self) -> float | None:
        """Throughput of the epoch so far; None before a step was timed."""
        seconds = self._wait_s + self._work_s
        return self._timed_steps * self.batch_size / seconds if seconds > 0 else None

    @property
    def rounded_images_per_s(self) -> float | None:
        """The throughput as it is stored: to a tenth."""
        return None if self.images_per_s is None else round(self.images_per_s, 1)

    @property
    def data_wait(self) -> float | None:
        """Waiting time as a share of all; near 0 when compute-bound, above a half when feed-bound. None: not seen."""
        return None if self.sunk else share_of_waiting(self._wait_s, self._work_s)

    @property
    def times(self) -> tuple[float, float, int]:
        """Seconds of waiting, seconds of work, and the steps that they are of."""
        return self._wait_s, self._work_s, self._timed_steps


def share_of_waiting(wait_s: float, work_s: float) -> float | None:
    """Waiting as a share of both; None when nothing was timed."""
    return wait_s / (wait_s + work_s) if wait_s + work_s > 0 else None


def what_limited(bound: str, share: float, device: str) -> str:
    """The sentence that ends a run: the stage that limited it, and where a remedy is found."""
    what = {FEED: "the feed", BALANCED: "feed and step alike", COMPUTE: "the step"}[bound]
    # Where a thread of the feed holds the core that the step needs, nobody waits for data.
    cores = ", as far as is seen where both share the cores" if device == "CPU" and bound != FEED else ""
    return f"limit: {what}{cores}; {share:.0%} of the training time went by waiting for data; {REMEDIES[bound]}"


def judge_wait(share: float | None, steps: int) -> str | None:
    """The verdict on a run that waited for data for this share of its time; None when that says too little."""
    if share is None or steps < ENOUGH_STEPS:
        return None
    if share <= NEGLIGIBLE_WAIT:
        return COMPUTE
    return BALANCED if share <= MARGIN else FEED
