"""Measures parts of a run, each alone and all together, on the very pipeline and step that `trainer run` uses.

Parts take turns, and the median over the rounds counts: what else the machine does then meets all of them alike. A
turn's clock starts when the part is warm, so that compiling and the first batch are in no figure.
"""

import functools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mindspore.dataset import vision
from mindspore.train import Model

from schemas.process.host import resident_memory
from trainer.device.context import switch
from trainer.device.sink import rounds
from trainer.doctor.storage import bytes_from_storage
from trainer.feed.pipeline import mapped, train_batches, train_rows, train_transforms
from trainer.nn.step import TrainStep
from trainer.plan.run_plan import RunPlan
from trainer.runs.state import RunState
from trainer.signals import StopSignals
from trainer.training.assemble import network_and_step
from trainer.training.callbacks import ActiveRun, Schedule, StepCallback
from trainer.training.meter import Meter
from trainer.training.progress import Silent

EPOCHS = 1 << 20  # more than any turn lasts
UPDATES = 100_000  # likewise
STILL = 1e-3  # of the rate: weights that hardly move cannot diverge, and a lost loss would leave updates out
LEAST_TURN_S = 0.25
LOOK_S, RESTING = 0.05, 0.2  # how often to look whether a process rests, and the share of a core that is rest

Clock = Callable[[], float]


@dataclass(frozen=True)
class Measurement:
    """What was done in one turn. `cpu_s` is that of all threads; `data_wait` the share of waiting, where it is seen.

    `storage_bytes` were read from the storage, not from the cache.
    """

    images: int
    wall_s: float
    cpu_s: float
    memory_bytes: int
    data_wait: float | None = None
    storage_bytes: int = 0

    @property
    def images_per_s(self) -> float:
        """Throughput of the turn."""
        return self.images / self.wall_s if self.wall_s > 0 else 0.0


class Timer:
    """Counts the images of a turn of `seconds`, from now on. The first `warm` batches are not counted, nor is more than
    half of the turn's time spent on them once the first has come. `check` may raise to end it all.
    """

    def __init__(self, seconds: float, warm: int, clock: Clock, cpu_clock: Clock, check: Callable[[], None]) -> None:
        self.seconds = seconds
        self.clock = clock
        self.cpu_clock = cpu_clock
        self.check = check
        self._cold = warm
        self._first: float | None = None
        self._began = self._ended = clock()
        self._cpu_began = self._cpu_ended = cpu_clock()
        self._images = 0
        self._read_began = self._read_ended = bytes_from_storage()

    @property
    def is_warm(self) -> bool:
        """Whether the clock runs."""
        return self._cold <= 0

    def done(self, images: int) -> bool:
        """Count a batch that is done; true when the turn is over."""
        self.check()
        now = self.clock()
        if not self.is_warm:
            self._first = now if self._first is None else self._first
            self._cold -= 1
            if now - self._first >= self.seconds / 2:
                self._cold = 0
            self._began, self._cpu_began, self._read_began = now, self.cpu_clock(), bytes_from_storage()
            return False
        self._images += images
        self._ended, self._cpu_ended, self._read_ended = now, self.cpu_clock(), bytes_from_storage()
        return now - self._began >= self.seconds

    def turn(self, data_wait: float | None = None) -> Measurement:
        """What was counted."""
        cpu_s = self._cpu_ended - self._cpu_began
        read = max(0, self._read_ended - self._read_began)
        return Measurement(self._images, self._ended - self._began, cpu_s, resident_memory(), data_wait, read)


@dataclass(frozen=True)
class Stage:
    """Something to measure: `work` does batches until the lap is over and returns the share of waiting, if it sees it.

    `warm` is how many batches come before it runs as it will; `prepare` is called before each turn, for what is to be
    in none.
    """

    name: str
    work: Callable[[Timer], float | None]
    warm: int = 1
    prepare: Callable[[], None] = lambda: None


def measure(part: Stage, seconds: float, check: Callable[[], None], clock: Clock = time.perf_counter) -> Measurement:
    """One turn of a part."""
    part.prepare()
    lap = Timer(seconds, part.warm, clock, time.process_time, check)
    return lap.turn(part.work(lap))


def take_turns(
    parts: Sequence[Stage],
    count: int,
    until: float,
    take: Callable[[Stage, float], Measurement],
    clock: Clock,
    least: int = 1,
) -> dict[str, list[Measurement]]:
    """Up to `count` turns of each part, round by round, to be done at `until` on the clock; by name.

    What turns take beside their own time is learnt on the way and left room for. Rounds are whole; `least` of them
    are made in any case.
    """
    found: dict[str, list[Measurement]] = {part.name: [] for part in parts}
    queue = [part for _ in range(count) for part in parts]
    beside_s, round_began = 0.0, clock()
    for place, part in enumerate(queue):
        began = clock()
        if place % len(parts) == 0:
            late = began + (began - round_began) / 2 > until  # the next round would be half over time
            if place >= least * len(parts) and late:
                break
            round_began = began
        seconds = max(LEAST_TURN_S, (until - began) / (len(queue) - place) - beside_s)
        found[part.name].append(take(part, seconds))
        beside_s += (clock() - began - seconds - beside_s) / (place + 1)  # their mean so far
    return found


@dataclass(frozen=True)
class Measured:
    """A part over all its turns, as medians. `cores` is how many it kept busy; `memory_bytes` is the process's own.

    `storage_bytes` per image came from the storage, not from the cache.
    """

    part: str
    images_per_s: float
    lowest: float
    highest: float
    cores: float
    memory_bytes: int
    turns: int
    data_wait: float | None = None
    storage_bytes: float = 0.0


def summed_up(turns: Mapping[str, Sequence[Measurement]]) -> dict[str, Measured]:
    """The medians of each part."""
    return {name: _summary(name, done) for name, done in turns.items()}


def _summary(name: str, turns: Sequence[Measurement]) -> Measured:
    rates = [turn.images_per_s for turn in turns]
    waits = [turn.data_wait for turn in turns if turn.data_wait is not None]
    return Measured(
        part=name,
        images_per_s=statistics.median(rates),
        lowest=min(rates),
        highest=max(rates),
        cores=statistics.median(turn.cpu_s / turn.wall_s if turn.wall_s else 0.0 for turn in turns),
        memory_bytes=max(turn.memory_bytes for turn in turns),
        turns=len(turns),
        data_wait=statistics.median(waits) if waits else None,
        storage_bytes=statistics.median(turn.storage_bytes / turn.images if turn.images else 0.0 for turn in turns),
    )


def reading(plan: RunPlan) -> Any:
    """Records as they lie in the shards. Only labels leave the pipeline: bytes would cost more on the way to Python."""
    return _counted(train_rows(plan.folder, plan.dataset, plan.effect), plan)


def decoding(plan: RunPlan) -> Any:
    """The whole of each image, decoded, in as many threads as the recipe has."""
    rows = train_rows(plan.folder, plan.dataset, plan.effect)
    return _counted(mapped(rows, plan.dataset, [vision.Decode()], plan.effect), plan)


def augmenting(plan: RunPlan) -> Any:
    """The recipe with all that comes after it, from bytes to float32."""
    rows = train_rows(plan.folder, plan.dataset, plan.effect)
    return _counted(mapped(rows, plan.dataset, train_transforms(plan.recipe, plan.pixels), plan.effect), plan)


def _counted(rows: Any, plan: RunPlan) -> Any:
    labels = rows.project([plan.dataset.schema.column("label")])
    return labels.batch(plan.config.batch_size, drop_remainder=True)


def feeding(plan: RunPlan) -> Any:
    """The batches of `trainer run`."""
    size = plan.config.batch_size
    return train_batches(plan.folder, plan.dataset, plan.recipe, plan.pixels, size, plan.effect)


def pipeline_part(name: str, plan: RunPlan, make: Callable[[RunPlan], Any]) -> Stage:
    """The pipeline of a plan alone: nobody uses its batches. Begun anew for each turn, it works in no other's."""

    def work(lap: Timer) -> None:
        switch(plan.effect)
        # As MindSpore's own loop takes them: Tensors, over the ends of epochs.
        batches = make(plan).create_tuple_iterator(num_epochs=-1, do_copy=True)
        try:
            for _ in endless(batches):
                if lap.done(plan.config.batch_size):
                    break
        finally:
            batches.stop()

    return Stage(name, work)


def endless(batches: Any) -> Iterator[Any]:
    """Epoch after epoch."""
    while True:
        yield from batches


class CompiledStep:
    """The training step of a plan, built when it is first asked for, and one batch that stays in memory."""

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        self.compile_s = 0.0  # of the first step, with the building of the network

    @functools.cached_property
    def step(self) -> TrainStep:
        """The step, ready to train."""
        rates = [STILL * self.plan.lr] * UPDATES
        _, step = network_and_step(self.plan, rates, lambda said: None)
        step.set_train(True)
        return step

    def compile(self) -> None:
        """Build the step and take it once; nothing when that is done."""
        switch(self.plan.effect)
        if self.compile_s:
            return
        images, labels = self.batch
        began = time.perf_counter()
        self.step(images, labels).asnumpy()
        self.compile_s = time.perf_counter() - began

    @functools.cached_property
    def batch(self) -> list[Any]:
        """The first batch of the pipeline."""
        return next(feeding(self.plan).create_tuple_iterator(num_epochs=1, do_copy=True))


def step_part(name: str, trainee: CompiledStep) -> Stage:
    """The step on one batch again and again: what training would reach if data cost nothing."""

    def work(lap: Timer) -> None:
        images, labels = trainee.batch
        while True:
            trainee.step(images, labels).asnumpy()  # waits for the device
            if lap.done(trainee.plan.config.batch_size):
                break

    return Stage(name, work, warm=0, prepare=trainee.compile)


class Pace(StepCallback):
    """What `trainer run` does around a step, until a lap is over; with `full` queues at its begin, or empty ones."""

    def __init__(self, plan: RunPlan, step: TrainStep, lap: Timer, full: bool) -> None:
        size = plan.config.batch_size
        course = Schedule(EPOCHS, plan.steps, [plan.lr] * UPDATES)
        run = ActiveRun(course, RunState(), step, Meter(size), Silent(), StopSignals())
        super().__init__(run, lambda: None, lambda *lost: "")
        self.lap = lap
        self.batch_size = size
        self.full = full
        self.wait_s = self.work_s = 0.0
        self._free = self._busy = 0.0

    def on_train_step_begin(self, run_context: Any) -> None:
        """Note that the batch has come."""
        if self.full:
            wait_for_rest(self.lap.seconds)
            self.full = False
        super().on_train_step_begin(run_context)
        self._busy = self.lap.clock()

    def on_train_step_end(self, run_context: Any) -> None:
        """Do as a run does, and stop when the lap is over."""
        before = self.run.state.step
        super().on_train_step_end(run_context)
        now = self.lap.clock()
        if self.lap.is_warm:
            self.wait_s += self._busy - self._free
            self.work_s += now - self._busy
        self._free = now
        if self.lap.done(self.batch_size * (self.run.state.step - before)):
            run_context.request_stop()


def wait_for_rest(most_s: float) -> None:
    """Wait until this process does nothing, for no longer than that: the queues are full then."""
    until = time.monotonic() + most_s
    while time.monotonic() < until:
        before = time.process_time()
        time.sleep(LOOK_S)
        if time.process_time() - before < RESTING * LOOK_S:
            return


def loop_part(
    name: str, plan: RunPlan, trainee: CompiledStep, make: Callable[[RunPlan], Any] = feeding, full: bool = False
) -> Stage:
    """Feed and step together in MindSpore's loop, under the callback that a run has. Saving and val are not in it.

    The plan may differ from the trainee's in its feed and its sink. With a feed that is faster than the step the queues
    are to be `full` at the begin, as they are in a long run: a feed that fills them takes cores from the step.
    """
    full = full and not plan.effect.sink

    def work(lap: Timer) -> float | None:
        switch(plan.effect)
        pace = Pace(plan, trainee.step, lap, full)
        epochs, call = rounds(plan.effect.train, EPOCHS, plan.steps, 0)
        call.make(Model(trainee.step), epochs, make(plan), [pace])
        seconds = pace.wait_s + pace.work_s
        return None if plan.effect.sink or not seconds else pace.wait_s / seconds

    # A sink is many steps; empty queues take some until the pace is that of the feed.
    warm = 1 if plan.effect.sink else 2 if full else 2 + plan.effect.prefetch
    return Stage(name, work, warm, trainee.compile)
