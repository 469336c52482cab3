"""`trainer doctor`: where a run's time goes on this data and machine, and which flags would help, tried first."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from schemas.host import max_open_files, usable_cores
from trainer.config import RunConfig
from trainer.convolution import Convolutions, is_reference, look_at_convolutions
from trainer.data import check_labels, pipeline_errors, train_transforms, try_recipe
from trainer.device import apply, this_machine
from trainer.errors import TrainerError
from trainer.feed import OTHER_FILES, READING
from trainer.mixing import mixes
from trainer.plan import RunPlan, check_files, plan_run
from trainer.python_ops import python_ops
from trainer.rank import under_msrun
from trainer.remedies import (
    Place,
    Remedy,
    Tried,
    amp_remedies,
    feed_remedies,
    jit_remedies,
    resize_side,
    step_remedies,
    weigh,
)
from trainer.runfolder import scratch
from trainer.sampling import Row, short_sides, some_rows
from trainer.session import Session
from trainer.signals import StopSignals
from trainer.stages import (
    Measured,
    Trainee,
    Turn,
    augmenting,
    decoding,
    feeding,
    loop_part,
    pipeline_part,
    reading,
    step_part,
    summed_up,
)
from trainer.storage import Storage, look_at_storage
from trainer.traps import GRAPH, O2, Observation, Trap, find_traps
from trainer.trials import Trials
from trainer.verdict import BALANCED, COMPUTE, FEED, Rates, Verdict, judge

ROUNDS = 3
# Of the time, each on top of those before: parts, loop, trials of feed and of step; last the best of them in the loop.
PARTS, BASE, FEED_TRIALS, TRIALS = 0.3, 0.42, 0.6, 0.92
WITH_SINK, WITHOUT_SINK = "loop, sink on", "loop, sink off"
STORAGE_S = 1.0
SAMPLE_ROWS = 192
SIDES = 24  # images whose sides are looked at


@dataclass
class Diagnosis:
    """All that was found. `parts` are in the order of the pipeline, each measured alone, the loop last.

    `short_side` is that of stored images, the median in pixels. `sink` is "on", "off", or why it cannot be on.
    `confirmed` is the best remedy in the whole loop. `failed` says what does not run here and why, `left_out` what
    there was no time for. `convolutions` is what oneDNN makes of one on CPU, None elsewhere.
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
    confirmed: Tried | None = None
    traps: list[Trap] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    seconds: float = 0.0
    convolutions: Convolutions | None = None


def diagnose(config: RunConfig, seconds: float, tell: Callable[[str], None], stop: StopSignals) -> Diagnosis:
    """Measure the run that `config` describes for about so many seconds, and judge it. Nothing is kept of it.

    Raises TrainerError and ContractError as a run would, Interrupted after a signal.
    """
    if under_msrun():
        raise TrainerError("doctor measures one process: start it without msrun, with the --batch-size of one rank")
    home = Path.cwd()
    plan = plan_run(config, this_machine(config.device))
    tell(f"checking {plan.folder}")
    check_files(plan.folder, plan.train_split, config.full_check)
    check_labels(plan.folder, plan.dataset, "train")
    with scratch(None), pipeline_errors(plan.folder):
        apply(plan.effect)
        try_recipe(config.recipe, plan.recipe, plan.pixels.size)
        stop.check()
        kernels = plan.effect.kernels
        convolutions = None if kernels is None else look_at_convolutions(kernels)
        stop.check()
        return examine(Session(plan, home, seconds, stop, tell), convolutions)


def examine(session: Session, convolutions: Convolutions | None = None) -> Diagnosis:
    """What diagnose does once the data is known to be sound, the device is set up and its kernels are known."""
    session.tell(f"measuring for about {session.seconds:.0f} s, compiling first")
    trainee = Trainee(session.plan, session.home)
    rows = some_rows(session.plan, max(SAMPLE_ROWS, 4 * session.plan.config.batch_size))
    found = _measure(session, trainee, rows)
    bound, limit = found.verdict.bound, found.verdict.limit
    session.tell(f"limit {limit:.3g} images/s ({bound}); trying what might help")
    rates = {
        name: next(part.images_per_s for part in found.parts if part.part.startswith(name)) for name in ("feed", "step")
    }
    trials = Trials(session, trainee, rates)
    _try(trials, found, rows)
    found.confirmed = trials.confirm(session.left_s())
    found.tried += trials.tried
    found.failed, found.left_out = trials.failed, found.left_out + trials.left_out
    found.convolutions = convolutions
    found.traps = find_traps(observe(session.plan, found))
    found.seconds = round(session.spent_s, 1)
    return found


def _measure(session: Session, trainee: Trainee, rows: list[Row]) -> Diagnosis:
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
    turns = session.rounds(parts, ROUNDS, session.left_s(PARTS))
    seen = summed_up(turns)
    cores = usable_cores()
    verdict = judge(_rates(seen, step.name, cores if effect.device == "CPU" else None))
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
    done = min(map(len, turns.values()))
    if done < ROUNDS:
        found.left_out.append(f"{ROUNDS - done} of {ROUNDS} rounds: the figures are rough, give more --seconds")
    return found


def _loop_turns(session: Session, trainee: Trainee, full: bool) -> dict[str, list[Turn]]:
    on = session.planned(sink=True)
    loops = [loop_part(WITH_SINK, on, trainee)] if on.effect.sink else []
    loops.append(loop_part(WITHOUT_SINK, session.planned(sink=False), trainee, full=full))
    return session.rounds(loops, ROUNDS, session.left_s(BASE))


def _sink(plan: RunPlan, turns: dict[str, list[Turn]]) -> str:
    if WITH_SINK not in turns:
        return _why(plan, "sink")
    return "on" if plan.effect.sink else "off"


def _rates(seen: dict[str, Measured], step: str, cores: int | None) -> Rates:
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
    row_bytes = sum(shard.bytes for shard in split.shards) // split.rows
    seconds = min(STORAGE_S, session.seconds / 50)
    return look_at_storage(session.plan.folder, [shard.name for shard in split.shards], row_bytes, seconds)


def _why(plan: RunPlan, setting: str) -> str:
    return next(decision.why for decision in plan.decisions if decision.setting == setting)


def _try(trials: Trials, found: Diagnosis, rows: list[Row]) -> None:
    """Remedies for what limits, and in any case the other levels of mixed precision."""
    session, effect = trials.session, trials.session.plan.effect
    config, bound = session.plan.config, found.verdict.bound
    if bound in (FEED, BALANCED):
        place = Place(effect.workers, effect.prefetch, found.cores, found.image_size, found.short_side)
        remedies = feed_remedies(config, session.plan.recipe, place)
        share = session.left_s(FEED_TRIALS) / max(1, len(remedies))
        for remedy in (one for one in remedies if one.resize is not None):
            trials.resize(remedy, rows, 2 * share)
        flags = [one for one in remedies if one.resize is None]
        trials.feed(flags, len(flags) * share)
    levels = amp_remedies(found.amp_level)
    if bound in (COMPUTE, BALANCED):
        levels = step_remedies(config, found.amp_level, effect.graph, session.plan.train_split.rows)
    levels += jit_remedies(config, effect.device, effect.graph)
    trials.step(levels, session.left_s(TRIALS))


def observe(plan: RunPlan, found: Diagnosis) -> Observation:
    """What the traps look at, from the plan and what was measured."""
    effect, config, files = plan.effect, plan.config, len(plan.train_split.shards)
    readers = -(-effect.workers // READING)
    feed = next(part for part in found.parts if part.part == "feed")
    gains = {one.flags: one.gain for one in found.tried}
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
        limit_per_s=found.verdict.limit,
        storage=found.storage.kind,
        network=found.storage.network,
        cold_per_s=found.storage.cold_rows_per_s,
        cached_per_s=found.storage.cached_rows_per_s,
        batch_gain=gains.get(f"--batch-size {2 * config.batch_size}"),
        graph_gain=gains.get(GRAPH),
        o2_gain=gains.get(O2),
        vain=tuple(one.flags for one in found.tried if not one.helps),
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
