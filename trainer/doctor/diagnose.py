"""`trainer doctor`: where a run's time goes on this data and machine, and which flags would help, tried first."""

import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from schemas.process.host import max_open_files, usable_cores, usable_memory
from trainer.config import RunConfig
from trainer.device.context import this_machine
from trainer.device.rank import under_msrun
from trainer.doctor.advice import Advice, conclude
from trainer.doctor.convolution import Convolutions, is_reference, look_at_convolutions
from trainer.doctor.python_ops import python_ops
from trainer.doctor.remedies import (
    NO_GAIN,
    Place,
    Remedy,
    Tried,
    amp_remedies,
    feed_remedies,
    jit_remedies,
    resize_side,
    step_remedies,
    weigh,
    without_extras,
)
from trainer.doctor.samples import Row, short_sides, some_rows
from trainer.doctor.session import Session
from trainer.doctor.stages import (
    CompiledStep,
    Measured,
    Measurement,
    Stage,
    augmenting,
    decoding,
    feeding,
    loop_part,
    pipeline_part,
    reading,
    step_part,
    summed_up,
)
from trainer.doctor.storage import Storage, look_at_storage
from trainer.doctor.traps import GRAPH, O2, Observation, Trap, find_traps
from trainer.doctor.trials import Trials
from trainer.doctor.verdict import FAR, Rates, Verdict, far_off, judge
from trainer.errors import TrainerError
from trainer.feed.mixing import mixes
from trainer.feed.pipeline import train_transforms
from trainer.feed.threads import OTHER_FILES, READING
from trainer.plan.prepare import check_data, prepared
from trainer.plan.run_plan import RunPlan, plan_run
from trainer.signals import StopSignals
from trainer.training.meter import COMPUTE, FEED

ROUNDS = 3
# Of the time, each on top of those before: parts, loop, trials of what limits, of the other part; last the whole loop.
PARTS, BASE, MAIN_TRIALS, OTHER_TRIALS = 0.28, 0.4, 0.64, 0.72
WITH_SINK, WITHOUT_SINK = "loop, sink on", "loop, sink off"
STORAGE_S = 1.0
FROM_STORAGE = 0.25  # of the bytes of rows: from there on reading is not done from the cache
SAMPLE_ROWS, SAMPLING = 192, 0.1  # and the share of the time that reading them may take
SIDES = 24  # images whose sides are looked at


@dataclass
class Diagnosis:
    """All that was found. `parts` are in the order of the pipeline, each measured alone, the loop last.

    `short_side` is that of stored images, the median in pixels. `sink` is "on", "off", or why it cannot be on.
    `tried` are all trials, `advice` has one conclusion for each flag. `failed` says what does not run here and
    why, `left_out` what there was no time for. `load` is that of the machine (1 min) before. `convolutions` is what
    oneDNN makes of one on CPU, None elsewhere.
    """

    dataset: str
    device: str
    cores: int
    model: str
    recipe: str
    image_size: int
    batch_size: int
    amp_level: str
    sink: str
    short_side: int
    storage: Storage
    parts: list[Measured]
    verdict: Verdict
    tried: list[Tried] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)
    traps: list[Trap] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    seconds: float = 0.0
    asked_seconds: float = 60.0
    load: float = 0.0
    convolutions: Convolutions | None = None


def diagnose(
    config: RunConfig, seconds: float, tell: Callable[[str], None], stop: StopSignals, home: Path = Path()
) -> Diagnosis:
    """Measure the run that `config` describes for about so many seconds, and judge it. Nothing is kept of it.

    `home` is as in RunPlan.

    Raises TrainerError and ContractError as a run would, Interrupted after a signal.
    """
    if under_msrun():
        raise TrainerError("doctor measures one process: start it without msrun, with the --batch-size of one rank")
    load = os.getloadavg()[0]
    plan = plan_run(config, this_machine(config.device), home=home)
    tell(f"checking {plan.folder}")
    check_data(plan, ("train",))
    with prepared(plan) as scratch:
        stop.check()
        kernels = plan.effect.kernels
        convolutions = None if kernels is None else look_at_convolutions(kernels)
        stop.check()
        return replace(examine(Session(plan, scratch, seconds, stop, tell, vary_order=True), convolutions), load=load)


def examine(session: Session, convolutions: Convolutions | None = None) -> Diagnosis:
    """What diagnose does once the data is known to be sound, the device is set up and its kernels are known."""
    session.tell(f"measuring for about {session.seconds:.0f} s, compiling first")
    trainee = CompiledStep(session.plan)
    rows = some_rows(session.plan, max(SAMPLE_ROWS, 4 * session.plan.config.batch_size), SAMPLING * session.seconds)
    found = _measure(session, trainee, rows)
    verdict = found.verdict
    session.tell(f"bottleneck {verdict.limit:.3g} images/s ({verdict.bound}); trying what might help")
    rates = _rates({part.part: part for part in found.parts}, found)
    trials = Trials(session, trainee, rates)
    _try(trials, found, rows)
    trials.loop(session.left_s())
    found.tried += trials.tried
    found.advice = conclude(found.tried, rates)
    found.failed, found.left_out = trials.failed, found.left_out + trials.left_out
    found.asked_seconds = session.seconds
    found.convolutions = convolutions
    found.traps = find_traps(observe(session.plan, found))
    found.seconds = round(session.spent_s, 1)
    return found


def _measure(session: Session, trainee: CompiledStep, rows: list[Row]) -> Diagnosis:
    """What there is: every part of the run as it was asked for."""
    plan, effect = session.plan, session.plan.effect
    step = step_part(f"step {effect.precision.amp_level}", trainee)
    parts = [
        pipeline_part("read", plan, reading),
        pipeline_part("decode", plan, decoding),
        pipeline_part("augment", plan, augmenting),
        pipeline_part("feed", plan, feeding),
        step,
    ]
    storage = _storage(session)
    trainee.compile()
    session.stop.check()
    turns = _part_turns(session, parts)
    seen = summed_up(turns)
    cores = usable_cores()
    verdict = judge(_rates_of(seen, step.name, cores if effect.device == "CPU" else None))
    turns |= _loop_turns(session, trainee, full=verdict.bound != FEED)
    seen = summed_up(turns)
    found = Diagnosis(
        dataset=str(plan.folder),
        device=effect.device,
        cores=cores,
        model=plan.config.model,
        recipe=plan.config.recipe,
        image_size=plan.pixels.size,
        batch_size=plan.config.batch_size,
        amp_level=effect.precision.amp_level,
        sink=_sink(plan, turns),
        short_side=round(statistics.median(short_sides(rows[:SIDES]))),
        storage=storage,
        parts=list(seen.values()),
        verdict=verdict,
    )
    if WITH_SINK in turns:
        on, off = ([turn.images_per_s for turn in turns[name]] for name in (WITH_SINK, WITHOUT_SINK))
        other = weigh(Remedy("--no-sink"), "loop", on, off) if effect.sink else weigh(Remedy("--sink"), "loop", off, on)
        found.tried.append(other)
    limiting = min(("feed", step.name), key=lambda name: seen[name].images_per_s)
    done = min(len(turns[name]) for name in (limiting, WITHOUT_SINK))
    if done < ROUNDS:
        found.left_out.append(f"{ROUNDS - done} of {ROUNDS} rounds: the figures are rough, give more --seconds")
    return found


def _part_turns(session: Session, parts: list[Stage]) -> dict[str, list[Measurement]]:
    """Interleaved turns; a part that is far from the bottleneck in the first round has that one only."""
    began, seconds = session.clock(), session.left_s(PARTS)
    turns = session.rounds(parts, 1, seconds / ROUNDS)
    far = far_off({name: done[0].images_per_s for name, done in turns.items()})
    near = [part for part in parts if part.name not in far]
    left_s = (seconds - (session.clock() - began)) * len(near) / len(parts)
    more = session.rounds(near, ROUNDS - 1, left_s, 0)
    return {name: done + more.get(name, []) for name, done in turns.items()}


def _loop_turns(session: Session, trainee: CompiledStep, full: bool) -> dict[str, list[Measurement]]:
    on = session.planned(sink=True)
    loops = [loop_part(WITH_SINK, on, trainee)] if on.effect.sink else []
    loops.append(loop_part(WITHOUT_SINK, session.planned(sink=False), trainee, full=full))
    return session.rounds(loops, ROUNDS, session.left_s(BASE))


def _sink(plan: RunPlan, turns: dict[str, list[Measurement]]) -> str:
    if WITH_SINK not in turns:
        return _why(plan, "sink")
    return "on" if plan.effect.sink else "off"


def _rates(seen: dict[str, Measured], found: Diagnosis) -> Rates:
    return _rates_of(seen, f"step {found.amp_level}", found.cores if found.device == "CPU" else None)


def _rates_of(seen: dict[str, Measured], step: str, cores: int | None) -> Rates:
    return Rates(
        read=seen["read"].images_per_s,
        decode=seen["decode"].images_per_s,
        augment=seen["augment"].images_per_s,
        feed=seen["feed"].images_per_s,
        step=seen[step].images_per_s,
        feed_cpu_s=seen["feed"].cores / seen["feed"].images_per_s,
        step_cpu_s=seen[step].cores / seen[step].images_per_s,
        cores=cores,
    )


def _storage(session: Session) -> Storage:
    split = session.plan.train_split
    seconds = min(STORAGE_S, session.seconds / 50)
    files = [shard.name for shard in split.shards]
    return look_at_storage(session.plan.folder, files, _row_bytes(session.plan), seconds)


def _why(plan: RunPlan, setting: str) -> str:
    return next(decision.why for decision in plan.decisions if decision.setting == setting)


def _try(trials: Trials, found: Diagnosis, rows: list[Row]) -> None:
    """Remedies for what limits first; then for the other part, unless it is far from limiting."""
    session, verdict = trials.session, found.verdict
    main, other = ("step", "feed") if verdict.bound == COMPUTE else ("feed", "step")
    for part, share in ((main, MAIN_TRIALS), (other, OTHER_TRIALS)):
        if part == other and verdict.ratio >= FAR and not verdict.limits(part):
            break
        if part == "feed" and verdict.limits("feed"):
            _try_feed(trials, found, rows, session.left_s(share))
        elif part == "step":
            _try_step(trials, found, session.left_s(share), must=part == main)
    if not trials.promising:  # the time of the whole loop is free
        trials.try_left_out(session.left_s())


def _try_step(trials: Trials, found: Diagnosis, seconds: float, must: bool) -> None:
    """All that may help; where the step does not limit, the levels of mixed precision for the table."""
    plan = trials.session.plan
    remedies = amp_remedies(found.device, found.amp_level)
    if found.verdict.limits("step"):
        graph, rows = plan.effect.graph, plan.train_split.rows
        remedies = step_remedies(plan.config, found.device, found.amp_level, graph, rows)
    remedies += jit_remedies(plan.config, found.device, plan.effect.graph)
    trials.step(remedies, seconds, must)


def _try_feed(trials: Trials, found: Diagnosis, rows: list[Row], seconds: float) -> None:
    plan = trials.session.plan
    reading = _reading(plan, found)
    place = Place(plan.effect.workers, plan.effect.prefetch, found.cores, found.image_size, found.short_side, reading)
    remedies = feed_remedies(plan.config, plan.recipe, place)
    share = seconds / max(1, len(remedies))
    for remedy in remedies:
        if remedy.resize is not None:
            trials.resize(remedy, rows, 2 * share)
        elif remedy.copy:
            trials.copy(remedy, rows, 2 * share)
    flags = [one for one in remedies if one.changes]
    trials.feed(flags, len(flags) * share)


def _reading(plan: RunPlan, found: Diagnosis) -> bool:
    """Return True if the feed waits for the storage: reading is its slowest part, and is not done from the cache."""
    read = next(part for part in found.parts if part.part == "read")
    is_read = found.storage.network or read.storage_bytes >= FROM_STORAGE * _row_bytes(plan)
    return found.verdict.limits("feed") and found.verdict.slowest == "read" and is_read


def _row_bytes(plan: RunPlan) -> int:
    return sum(shard.bytes for shard in plan.train_split.shards) // plan.train_split.rows


def observe(plan: RunPlan, found: Diagnosis) -> Observation:
    """What the traps look at, from the plan and what was measured."""
    effect, config, files = plan.effect, plan.config, len(plan.train_split.shards)
    readers = -(-effect.workers // READING)
    feed = next(part for part in found.parts if part.part == "feed")
    gains = {one.flags: one.gain for one in found.tried if one.part != "loop"}
    set_bytes = sum(shard.bytes for shard in plan.train_split.shards)
    reference, kernels_gain = _reference(found.convolutions)
    return Observation(
        device=effect.device,
        graph=effect.graph,
        amp_level=effect.precision.amp_level,
        sink=effect.sink,
        sink_asked=config.sink,
        sink_why=_why(plan, "sink"),
        workers=effect.workers,
        workers_asked=config.workers,
        cores=found.cores,
        cores_busy=feed.cores,
        feed_bound=found.verdict.bound == FEED,
        feed_limits=found.verdict.limits("feed"),
        step_limits=found.verdict.limits("step"),
        reading_limits=_reading(plan, found),
        readers=effect.readers,
        readers_wanted=readers,
        files=files,
        open_files_wanted=files * (readers + 1) + OTHER_FILES,
        open_files_limit=max_open_files(),
        batch_size=config.batch_size,
        image_side=plan.pixels.size,
        short_side=found.short_side,
        resize_side=resize_side(plan.pixels.size),
        python_ops=python_ops(train_transforms(plan.recipe, plan.pixels)),
        mixing=mixes(plan.recipe),
        mixing_flags=without_extras(plan.recipe) or None,
        limit_per_s=found.verdict.limit,
        storage=found.storage.kind,
        network=found.storage.network,
        cold_per_s=found.storage.cold_rows_per_s,
        cached_per_s=found.storage.cached_rows_per_s,
        batch_gain=gains.get(f"--batch-size {2 * config.batch_size}"),
        graph_gain=gains.get(GRAPH),
        o2_gain=gains.get(O2),
        fits_in_memory=set_bytes <= usable_memory(),
        vain=tuple(one.flags for one in found.advice if one.outcome == NO_GAIN and not one.is_idle),
        idle=tuple(one.flags for one in found.advice if one.is_idle),
        kernels_asked="default" if effect.kernels is None else effect.kernels.decision.asked,
        reference=reference,
        kernels_gain=kernels_gain,
    )


def _reference(seen: Convolutions | None) -> tuple[tuple[str, ...], float | None]:
    """The reference implementations that are in effect, and how many times as fast the alternative is."""
    if seen is None or not seen.in_effect.is_reference or seen.other is None:
        return (), None
    names = tuple(name for name in seen.in_effect.implementations if is_reference(name))
    return names, seen.in_effect.milliseconds / seen.other.milliseconds
