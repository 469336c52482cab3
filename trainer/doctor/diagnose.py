"""`trainer doctor`: find the bottleneck of a run on this data and machine, and try faster settings."""

import os
import statistics
from dataclasses import dataclass, field, replace
from pathlib import Path

from schemas.process.host import max_open_files, usable_cores, usable_memory
from trainer.config import RunConfig
from trainer.device.context import this_machine
from trainer.device.rank import under_msrun
from trainer.doctor.advice import Advice, conclude
from trainer.doctor.convolution import Convolutions, is_reference, measure_convolutions
from trainer.doctor.notes import BottleneckFound, Checking, Measuring, Tell
from trainer.doctor.python_ops import python_ops
from trainer.doctor.remedies import (
    NO_GAIN,
    FeedConditions,
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
from trainer.doctor.samples import Row, sample_rows, short_sides
from trainer.doctor.session import Session
from trainer.doctor.stages import (
    CompiledStep,
    Measured,
    Measurement,
    Stage,
    augmenting,
    decoding,
    feeding,
    loop_stage,
    medians,
    pipeline_stage,
    reading,
    step_stage,
)
from trainer.doctor.storage import Storage, measure_storage
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
# Cumulative shares of the time: stages, loop, trials of the bottleneck, of the other stage. The loop gets the rest.
PARTS, BASE, MAIN_TRIALS, OTHER_TRIALS = 0.28, 0.4, 0.64, 0.72
WITH_SINK, WITHOUT_SINK = "loop, sink on", "loop, sink off"
STORAGE_S = 1.0
FROM_STORAGE = 0.25  # share of the bytes of rows, above which rows do not come from the cache
SAMPLE_ROWS, SAMPLING = 192, 0.1  # number of rows, and the share of the time for reading rows
SIDES = 24  # images whose sides are measured


@dataclass
class Diagnosis:
    """Result of `trainer doctor`. `parts` are the stages in pipeline order, each measured alone, and the loop.

    `short_side` is the median shorter side of stored images in pixels. `sink` is "on", "off", or the reason why data
    sinking is not possible. `tried` has all trials, `advice` one conclusion per flag. `failed` maps flags that do not
    run here to errors. `left_out` has flags that were not tried. `load` is the load average (1 min) of the machine
    before the measurement. `convolutions` is None except on CPU.
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


def diagnose(config: RunConfig, seconds: float, tell: Tell, stop: StopSignals, home: Path = Path()) -> Diagnosis:
    """Measure the run that `config` describes for about `seconds` and find its bottleneck.

    No weights are saved. `tell` receives progress notes. `home` is as in RunPlan. Raises TrainerError or ContractError
    if a run could not start, and Interrupted after a signal.
    """
    if under_msrun():
        raise TrainerError("doctor measures one process: start it without msrun, with the --batch-size of one rank")
    load = os.getloadavg()[0]
    plan = plan_run(config, this_machine(config.device), home=home)
    tell(Checking(plan.folder))
    check_data(plan, ("train",))
    with prepared(plan) as scratch:
        stop.check()
        kernels = plan.effect.kernels
        convolutions = None if kernels is None else measure_convolutions(kernels)
        stop.check()
        return replace(examine(Session(plan, scratch, seconds, stop, tell, vary_order=True), convolutions), load=load)


def examine(session: Session, convolutions: Convolutions | None = None) -> Diagnosis:
    """Measure the run and try remedies. The data must be checked and the device must be set up."""
    session.tell(Measuring(session.seconds, compiles=True))
    compiled = CompiledStep(session.plan)
    rows = sample_rows(session.plan, max(SAMPLE_ROWS, 4 * session.plan.config.batch_size), SAMPLING * session.seconds)
    diagnosis = _measure(session, compiled, rows)
    verdict = diagnosis.verdict
    session.tell(BottleneckFound(verdict.bound, verdict.limit))
    cores = diagnosis.cores if diagnosis.device == "CPU" else None
    rates = _rates_of({part.part: part for part in diagnosis.parts}, f"step {diagnosis.amp_level}", cores)
    trials = Trials(session, compiled, rates)
    _try(trials, diagnosis, rows)
    trials.loop(session.left_s())
    diagnosis.tried += trials.tried
    diagnosis.advice = conclude(diagnosis.tried, rates)
    diagnosis.failed, diagnosis.left_out = trials.failed, diagnosis.left_out + trials.left_out
    diagnosis.asked_seconds = session.seconds
    diagnosis.convolutions = convolutions
    diagnosis.traps = find_traps(observe(session.plan, diagnosis))
    diagnosis.seconds = round(session.spent_s, 1)
    return diagnosis


def _measure(session: Session, compiled: CompiledStep, rows: list[Row]) -> Diagnosis:
    """Measure every stage of the run with the current settings."""
    plan, effect = session.plan, session.plan.effect
    step = step_stage(f"step {effect.precision.amp_level}", compiled)
    parts = [
        pipeline_stage("read", plan, reading),
        pipeline_stage("decode", plan, decoding),
        pipeline_stage("augment", plan, augmenting),
        pipeline_stage("feed", plan, feeding),
        step,
    ]
    storage = _storage(session)
    compiled.compile()
    session.stop.check()
    turns = _stage_turns(session, parts)
    measured = medians(turns)
    cores = usable_cores()
    verdict = judge(_rates_of(measured, step.name, cores if effect.device == "CPU" else None))
    turns |= _loop_turns(session, compiled, full=verdict.bound != FEED)
    measured = medians(turns)
    diagnosis = Diagnosis(
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
        parts=list(measured.values()),
        verdict=verdict,
    )
    if WITH_SINK in turns:
        on, off = ([turn.images_per_s for turn in turns[name]] for name in (WITH_SINK, WITHOUT_SINK))
        other = weigh(Remedy("--no-sink"), "loop", on, off) if effect.sink else weigh(Remedy("--sink"), "loop", off, on)
        diagnosis.tried.append(other)
    limiting = min(("feed", step.name), key=lambda name: measured[name].images_per_s)
    done = min(len(turns[name]) for name in (limiting, WITHOUT_SINK))
    if done < ROUNDS:
        diagnosis.left_out.append(f"{ROUNDS - done} of {ROUNDS} rounds: the figures are inaccurate, use more --seconds")
    return diagnosis


def _stage_turns(session: Session, parts: list[Stage]) -> dict[str, list[Measurement]]:
    """Measure stages in rounds. A stage that is far from the bottleneck in the first round is not measured again."""
    began, seconds = session.clock(), session.left_s(PARTS)
    turns = session.rounds(parts, 1, seconds / ROUNDS)
    far = far_off({name: done[0].images_per_s for name, done in turns.items()})
    near = [part for part in parts if part.name not in far]
    left_s = (seconds - (session.clock() - began)) * len(near) / len(parts)
    more = session.rounds(near, ROUNDS - 1, left_s, 0)
    return {name: done + more.get(name, []) for name, done in turns.items()}


def _loop_turns(session: Session, compiled: CompiledStep, full: bool) -> dict[str, list[Measurement]]:
    on = session.planned(sink=True)
    loops = [loop_stage(WITH_SINK, on, compiled)] if on.effect.sink else []
    loops.append(loop_stage(WITHOUT_SINK, session.planned(sink=False), compiled, full=full))
    return session.rounds(loops, ROUNDS, session.left_s(BASE))


def _sink(plan: RunPlan, turns: dict[str, list[Measurement]]) -> str:
    if WITH_SINK not in turns:
        return _why(plan, "sink")
    return "on" if plan.effect.sink else "off"


def _rates_of(measured: dict[str, Measured], step: str, cores: int | None) -> Rates:
    return Rates(
        read=measured["read"].images_per_s,
        decode=measured["decode"].images_per_s,
        augment=measured["augment"].images_per_s,
        feed=measured["feed"].images_per_s,
        step=measured[step].images_per_s,
        feed_cpu_s=measured["feed"].cores / measured["feed"].images_per_s,
        step_cpu_s=measured[step].cores / measured[step].images_per_s,
        cores=cores,
    )


def _storage(session: Session) -> Storage:
    split = session.plan.train_split
    seconds = min(STORAGE_S, session.seconds / 50)
    files = [shard.name for shard in split.shards]
    return measure_storage(session.plan.folder, files, _row_bytes(session.plan), seconds)


def _why(plan: RunPlan, setting: str) -> str:
    return next(decision.why for decision in plan.decisions if decision.setting == setting)


def _try(trials: Trials, diagnosis: Diagnosis, rows: list[Row]) -> None:
    """Try remedies for the bottleneck, then for the other stage unless it is far from the bottleneck."""
    session, verdict = trials.session, diagnosis.verdict
    main, other = ("step", "feed") if verdict.bound == COMPUTE else ("feed", "step")
    for part, share in ((main, MAIN_TRIALS), (other, OTHER_TRIALS)):
        if part == other and verdict.ratio >= FAR and not verdict.limits(part):
            break
        if part == "feed" and verdict.limits("feed"):
            _try_feed(trials, diagnosis, rows, session.left_s(share))
        elif part == "step":
            _try_step(trials, diagnosis, session.left_s(share), must=part == main)
    if not trials.promising:  # without trials in the whole loop, their time is free
        trials.try_left_out(session.left_s())


def _try_step(trials: Trials, diagnosis: Diagnosis, seconds: float, must: bool) -> None:
    """Try all remedies of the step, or only levels of mixed precision if the step is not the bottleneck."""
    plan = trials.session.plan
    remedies = amp_remedies(diagnosis.device, diagnosis.amp_level)
    if diagnosis.verdict.limits("step"):
        graph, rows = plan.effect.graph, plan.train_split.rows
        remedies = step_remedies(plan.config, diagnosis.device, diagnosis.amp_level, graph, rows)
    remedies += jit_remedies(plan.config, diagnosis.device, plan.effect.graph)
    trials.step(remedies, seconds, must)


def _try_feed(trials: Trials, diagnosis: Diagnosis, rows: list[Row], seconds: float) -> None:
    plan = trials.session.plan
    reading = _reading(plan, diagnosis)
    threads = (plan.effect.workers, plan.effect.prefetch, diagnosis.cores)
    conditions = FeedConditions(*threads, diagnosis.image_size, diagnosis.short_side, reading)
    remedies = feed_remedies(plan.config, plan.recipe, conditions)
    share = seconds / max(1, len(remedies))
    for remedy in remedies:
        if remedy.resize is not None:
            trials.resize(remedy, rows, 2 * share)
        elif remedy.copy:
            trials.copy(remedy, rows, 2 * share)
    flags = [one for one in remedies if one.changes]
    trials.feed(flags, len(flags) * share)


def _reading(plan: RunPlan, diagnosis: Diagnosis) -> bool:
    """Return True if reading is the slowest part of the feed and rows do not come from the cache."""
    read = next(part for part in diagnosis.parts if part.part == "read")
    is_read = diagnosis.storage.network or read.storage_bytes >= FROM_STORAGE * _row_bytes(plan)
    return diagnosis.verdict.limits("feed") and diagnosis.verdict.slowest == "read" and is_read


def _row_bytes(plan: RunPlan) -> int:
    return sum(shard.bytes for shard in plan.train_split.shards) // plan.train_split.rows


def observe(plan: RunPlan, diagnosis: Diagnosis) -> Observation:
    """Return the Observation for find_traps, from the plan and the measurements."""
    effect, config, files = plan.effect, plan.config, len(plan.train_split.shards)
    readers = -(-effect.workers // READING)
    feed = next(part for part in diagnosis.parts if part.part == "feed")
    gains = {one.flags: one.gain for one in diagnosis.tried if one.part != "loop"}
    set_bytes = sum(shard.bytes for shard in plan.train_split.shards)
    reference, kernels_gain = _reference(diagnosis.convolutions)
    return Observation(
        device=effect.device,
        graph=effect.graph,
        amp_level=effect.precision.amp_level,
        sink=effect.sink,
        sink_asked=config.sink,
        sink_why=_why(plan, "sink"),
        workers=effect.workers,
        workers_asked=config.workers,
        cores=diagnosis.cores,
        cores_busy=feed.cores,
        feed_bound=diagnosis.verdict.bound == FEED,
        feed_limits=diagnosis.verdict.limits("feed"),
        step_limits=diagnosis.verdict.limits("step"),
        reading_limits=_reading(plan, diagnosis),
        readers=effect.readers,
        readers_wanted=readers,
        files=files,
        open_files_wanted=files * (readers + 1) + OTHER_FILES,
        open_files_limit=max_open_files(),
        batch_size=config.batch_size,
        image_side=plan.pixels.size,
        short_side=diagnosis.short_side,
        resize_side=resize_side(plan.pixels.size),
        python_ops=python_ops(train_transforms(plan.recipe, plan.pixels)),
        mixing=mixes(plan.recipe),
        mixing_flags=without_extras(plan.recipe) or None,
        limit_per_s=diagnosis.verdict.limit,
        storage=diagnosis.storage.kind,
        network=diagnosis.storage.network,
        cold_per_s=diagnosis.storage.cold_rows_per_s,
        cached_per_s=diagnosis.storage.cached_rows_per_s,
        batch_gain=gains.get(f"--batch-size {2 * config.batch_size}"),
        graph_gain=gains.get(GRAPH),
        o2_gain=gains.get(O2),
        fits_in_memory=set_bytes <= usable_memory(),
        useless_flags=tuple(one.flags for one in diagnosis.advice if one.outcome == NO_GAIN and not one.is_idle),
        idle_flags=tuple(one.flags for one in diagnosis.advice if one.is_idle),
        kernels_asked="default" if effect.kernels is None else effect.kernels.decision.asked,
        reference=reference,
        kernels_gain=kernels_gain,
    )


def _reference(measured: Convolutions | None) -> tuple[tuple[str, ...], float | None]:
    """Return the reference implementations in effect and the speedup of the alternative."""
    if measured is None or not measured.in_effect.is_reference or measured.other is None:
        return (), None
    names = tuple(name for name in measured.in_effect.implementations if is_reference(name))
    return names, measured.in_effect.milliseconds / measured.other.milliseconds
