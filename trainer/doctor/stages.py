"""Measure the stages of a run, alone and together, with the pipeline and the step of `trainer run`.

Stages are measured in interleaved rounds, and the median counts, so that other programs affect all stages alike.
The clock of a measurement starts when the stage is warm, so compilation and the first batch are not included.
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

EPOCHS = 1 << 20  # more epochs than any measurement takes
UPDATES = 100_000  # more updates than any measurement takes
SLOW = 1e-3  # share of the learning rate: weights that hardly change cannot diverge and cause skipped updates
LEAST_TURN_S = 0.25
CHECK_S, IDLE = 0.05, 0.2  # interval of checks for an idle process; busy share of a core that counts as idle

Clock = Callable[[], float]


@dataclass(frozen=True)
class Measurement:
    """One measurement of a stage. `cpu_s` is the CPU time of all threads.

    `data_wait` is the share of time spent waiting for data, or None if it cannot be measured. `storage_bytes` is the
    number of bytes read from storage, not from the cache.
    """

    images: int
    wall_s: float
    cpu_s: float
    memory_bytes: int
    data_wait: float | None = None
    storage_bytes: int = 0

    @property
    def images_per_s(self) -> float:
        """Return the throughput in images/s."""
        return self.images / self.wall_s if self.wall_s > 0 else 0.0


class Timer:
    """Counter of images and time for a measurement of `seconds`, starting now. `check` may raise an exception to stop.

    The first `warm` batches are not counted. Warm-up ends at the latest half of `seconds` after the first batch.
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
        """Return True if batches are counted."""
        return self._cold <= 0

    def done(self, images: int) -> bool:
        """Count a finished batch of `images` images. Return True if the measurement is over."""
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

    def measurement(self, data_wait: float | None = None) -> Measurement:
        """Return the measurement up to the latest batch."""
        cpu_s = self._cpu_ended - self._cpu_began
        read = max(0, self._read_ended - self._read_began)
        return Measurement(self._images, self._ended - self._began, cpu_s, resident_memory(), data_wait, read)


@dataclass(frozen=True)
class Stage:
    """A stage to measure: `work` processes batches until the timer is done and returns the share of waiting, or None.

    `warm` is the number of warm-up batches. `prepare` is called before each measurement and is not timed.
    """

    name: str
    work: Callable[[Timer], float | None]
    warm: int = 1
    prepare: Callable[[], None] = lambda: None


def measure(part: Stage, seconds: float, check: Callable[[], None], clock: Clock = time.perf_counter) -> Measurement:
    """Measure a stage once, for about `seconds`."""
    part.prepare()
    timer = Timer(seconds, part.warm, clock, time.process_time, check)
    return timer.measurement(part.work(timer))


def measure_in_rounds(
    parts: Sequence[Stage],
    count: int,
    until: float,
    take: Callable[[Stage, float], Measurement],
    clock: Clock,
    least: int = 1,
) -> dict[str, list[Measurement]]:
    """Measure each stage up to `count` times, round by round, until the clock shows `until`.

    Return the measurements by stage name. Each round is complete, and there are at least `least` rounds. The overhead
    of a measurement is estimated from earlier measurements.
    """
    found: dict[str, list[Measurement]] = {part.name: [] for part in parts}
    queue = [part for _ in range(count) for part in parts]
    overhead_s, round_began = 0.0, clock()
    for number, part in enumerate(queue):
        began = clock()
        if number % len(parts) == 0:
            late = began + (began - round_began) / 2 > until  # more than half of the next round would be late
            if number >= least * len(parts) and late:
                break
            round_began = began
        seconds = max(LEAST_TURN_S, (until - began) / (len(queue) - number) - overhead_s)
        found[part.name].append(take(part, seconds))
        overhead_s += (clock() - began - seconds - overhead_s) / (number + 1)  # mean so far
    return found


@dataclass(frozen=True)
class Measured:
    """Medians over all measurements (`turns`) of a stage. `cores` is the number of busy cores.

    `memory_bytes` is the peak of the process. `storage_bytes` is the bytes per image from storage, not from the cache.
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


def medians(turns: Mapping[str, Sequence[Measurement]]) -> dict[str, Measured]:
    """Return the medians of each stage."""
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
    """Return a pipeline that reads records but outputs only labels, because passing images to Python takes time."""
    return _counted(train_rows(plan.folder, plan.dataset, plan.effect), plan)


def decoding(plan: RunPlan) -> Any:
    """Return a pipeline that decodes whole images, with as many threads as the recipe."""
    rows = train_rows(plan.folder, plan.dataset, plan.effect)
    return _counted(mapped(rows, plan.dataset, [vision.Decode()], plan.effect), plan)


def augmenting(plan: RunPlan) -> Any:
    """Return a pipeline with all transforms, from bytes to float32."""
    rows = train_rows(plan.folder, plan.dataset, plan.effect)
    return _counted(mapped(rows, plan.dataset, train_transforms(plan.recipe, plan.pixels), plan.effect), plan)


def _counted(rows: Any, plan: RunPlan) -> Any:
    labels = rows.project([plan.dataset.schema.column("label")])
    return labels.batch(plan.config.batch_size, drop_remainder=True)


def feeding(plan: RunPlan) -> Any:
    """Return the pipeline of `trainer run`."""
    size = plan.config.batch_size
    return train_batches(plan.folder, plan.dataset, plan.recipe, plan.pixels, size, plan.effect)


def pipeline_stage(name: str, plan: RunPlan, make: Callable[[RunPlan], Any]) -> Stage:
    """Return the pipeline of a plan as a stage. The pipeline runs only during its own measurements."""

    def work(timer: Timer) -> None:
        switch(plan.effect)
        # As in MindSpore's own loop: Tensors, across epochs.
        batches = make(plan).create_tuple_iterator(num_epochs=-1, do_copy=True)
        try:
            for _ in endless(batches):
                if timer.done(plan.config.batch_size):
                    break
        finally:
            batches.stop()

    return Stage(name, work)


def endless(batches: Any) -> Iterator[Any]:
    """Yield batches, epoch after epoch."""
    while True:
        yield from batches


class CompiledStep:
    """The training step of a plan, built on first use, and one batch that stays in memory."""

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        self.compile_s = 0.0  # to build the network and run the first step

    @functools.cached_property
    def step(self) -> TrainStep:
        """Return the step, ready to train."""
        rates = [SLOW * self.plan.lr] * UPDATES
        _, step = network_and_step(self.plan, rates, lambda text: None)
        step.set_train(True)
        return step

    def compile(self) -> None:
        """Build the step and run it once. A second call does nothing."""
        switch(self.plan.effect)
        if self.compile_s:
            return
        images, labels = self.batch
        began = time.perf_counter()
        self.step(images, labels).asnumpy()
        self.compile_s = time.perf_counter() - began

    @functools.cached_property
    def batch(self) -> list[Any]:
        """Return the first batch of the pipeline."""
        return next(feeding(self.plan).create_tuple_iterator(num_epochs=1, do_copy=True))


def step_stage(name: str, compiled: CompiledStep) -> Stage:
    """Return the step on one repeated batch as a stage, which gives the throughput of training without a feed."""

    def work(timer: Timer) -> None:
        images, labels = compiled.batch
        while True:
            compiled.step(images, labels).asnumpy()  # waits for the device
            if timer.done(compiled.plan.config.batch_size):
                break

    return Stage(name, work, warm=0, prepare=compiled.compile)


class TimedCallback(StepCallback):
    """Step callback of `trainer run` that stops when the timer is done. With `full` it first waits for full queues."""

    def __init__(self, plan: RunPlan, step: TrainStep, timer: Timer, full: bool) -> None:
        size = plan.config.batch_size
        schedule = Schedule(EPOCHS, plan.steps, [plan.lr] * UPDATES)
        run = ActiveRun(schedule, RunState(), step, Meter(size), Silent(), StopSignals())
        super().__init__(run, lambda: None, lambda *_: "")
        self.timer = timer
        self.batch_size = size
        self.full = full
        self.wait_s = self.work_s = 0.0
        self._free = self._busy = 0.0

    def on_train_step_begin(self, run_context: Any) -> None:
        """Record the arrival of a batch."""
        if self.full:
            wait_until_idle(self.timer.seconds)
            self.full = False
        super().on_train_step_begin(run_context)
        self._busy = self.timer.clock()

    def on_train_step_end(self, run_context: Any) -> None:
        """Call the training callback, record wait and work time, and request a stop when the measurement is done."""
        before = self.run.state.step
        super().on_train_step_end(run_context)
        now = self.timer.clock()
        if self.timer.is_warm:
            self.wait_s += self._busy - self._free
            self.work_s += now - self._busy
        self._free = now
        if self.timer.done(self.batch_size * (self.run.state.step - before)):
            run_context.request_stop()


def wait_until_idle(most_s: float) -> None:
    """Wait until this process is idle, so that the queues are full, but at most `most_s` seconds."""
    until = time.monotonic() + most_s
    while time.monotonic() < until:
        before = time.process_time()
        time.sleep(CHECK_S)
        if time.process_time() - before < IDLE * CHECK_S:
            return


def loop_stage(
    name: str, plan: RunPlan, compiled: CompiledStep, make: Callable[[RunPlan], Any] = feeding, full: bool = False
) -> Stage:
    """Return the training loop with the step callback of a run as a stage. The loop neither saves nor validates.

    `plan` may differ from the plan of the step in feed and sink. If the feed is faster than the step, measure with
    `full` queues, as in a long run, because a feed that fills queues takes cores from the step.
    """
    full = full and not plan.effect.sink

    def work(timer: Timer) -> float | None:
        switch(plan.effect)
        callback = TimedCallback(plan, compiled.step, timer, full)
        epochs, call = rounds(plan.effect.train, EPOCHS, plan.steps, 0)
        call.make(Model(compiled.step), epochs, make(plan), [callback])
        seconds = callback.wait_s + callback.work_s
        return None if plan.effect.sink or not seconds else callback.wait_s / seconds

    # A sink has many steps. With empty queues, the feed limits the speed only after some steps.
    warm = 1 if plan.effect.sink else 2 if full else 2 + plan.effect.prefetch
    return Stage(name, work, warm, compiled.compile)
