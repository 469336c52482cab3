"""Main path: from a RunConfig to a trained, evaluated and stored model. Reads from top to bottom."""

import contextlib
import time
from pathlib import Path
from typing import Any

import mindspore.dataset as ds
from mindspore.train import Model

from schemas.counting import many
from schemas.errors import ContractError
from schemas.storage.files import write_whole
from trainer.config import RunConfig
from trainer.device.context import this_machine
from trainer.device.precision import overflow_advice
from trainer.device.sink import rounds
from trainer.errors import Interrupted, TrainerError
from trainer.feed.autotune import keep_tuned, stop_autotune
from trainer.feed.pipeline import eval_batches, train_batches
from trainer.nn.all_reduce import average_statistics, sum_scores
from trainer.nn.optimizer import cosine_with_warmup
from trainer.nn.tasks.classification import Scores
from trainer.plan.preflight import check_start
from trainer.plan.prepare import check_data, prepared
from trainer.plan.run_plan import RunPlan, plan_run
from trainer.runs.folder import (
    AUTOTUNE_CONFIG,
    AUTOTUNE_REPORT,
    BEST,
    CONFIG,
    LAST,
    METRICS,
    RESULT,
    holds_run,
    run_folder,
    temporary_folder,
)
from trainer.runs.history import append_start, start_settings
from trainer.runs.result import TrainResult, warn_of_skipped
from trainer.runs.state import RunState
from trainer.signals import StopSignals
from trainer.training.assemble import network_and_step
from trainer.training.callbacks import EpochCallback, Schedule, StepCallback, StepNumbers
from trainer.training.checkpointing import Checkpointer
from trainer.training.lineage import foreign_label, undecodable, write_report
from trainer.training.logs import log_callbacks
from trainer.training.meter import SUNK, Meter, judge_wait, share_of_waiting, what_limited
from trainer.training.progress import Progress, Silent
from trainer.training.validation import evaluate_network


def train(config: RunConfig, progress: Progress, stop: StopSignals, home: Path = Path()) -> TrainResult:
    """Train until done or until `stop` is set; report to `progress` and write all results to the run folder.

    A run in that folder resumes at its last checkpoint; `home` is as in RunPlan. Raise TrainerError and ContractError
    before anything is compiled, Interrupted when a signal stopped the run.
    """
    began = time.perf_counter()
    plan = plan_run(config, this_machine(config.device), start_settings(config.out), home)
    effect = plan.effect
    if not effect.shard_id:  # only rank 0 checks; the other ranks wait for it to join them
        check_start(plan)
        check_data(plan, plan.used_splits, stop.check)
    if effect.shard_id:
        progress = Silent()  # rank 0 speaks and writes for all
    _tell_beginning(plan, progress)

    state = RunState()

    def undecodable_key() -> str | None:
        return undecodable(plan, state.step)

    with _run_folder(plan) as run, prepared(plan, run, undecodable_key) as scratch:
        course = _course(plan)
        network, step = network_and_step(plan, course.rates, progress.note, not (run / LAST).exists())
        keeper = Checkpointer(run, plan, step, state, began)
        stop.check()
        _take_up(keeper, progress, config)

        def evaluate() -> Scores | None:
            stop_autotune()
            with step.averaged():
                scores = _evaluate_val(plan, network, stop)
            step.set_train(True)
            return scores

        def explain(what: str, first: int, last: int, element: Any) -> str:
            return write_report(run, plan, what, (first, last), element)

        meter = Meter(config.batch_size * effect.num_shards, effect.sink)
        watch = StepCallback(course, state, step, meter, progress, stop, keeper.save, explain)
        epoch_end = EpochCallback(course, state, step, meter, progress, stop, run / METRICS, evaluate, keeper.save)
        logs = [] if effect.shard_id else log_callbacks(config, run, meter, course, state, run / METRICS, progress.note)
        if not state.evaluated:
            watch.enter_epoch(state.step // plan.steps)
            epoch_end.finish_epoch()
        if state.evaluated and not course.is_over(state):
            numbers = StepNumbers(course, state, effect.pipeline_per_epoch)
            _train_epochs(plan, step, course, state, stop, [numbers, watch, epoch_end, *logs])
            if config.autotune:
                progress.note(keep_tuned(scratch, run / AUTOTUNE_REPORT, run / AUTOTUNE_CONFIG))
        if not course.is_over(state):
            assert stop.signum is not None
            raise Interrupted(stop.signum, run / LAST, effect.num_shards)
        return _finish(plan, run, state, progress)


def _tell_beginning(plan: RunPlan, progress: Progress) -> None:
    progress.settings(plan.decisions)
    for warning in plan.warnings:
        progress.note(f"warning: {warning}")


def _train_epochs(
    plan: RunPlan, step: Any, course: Schedule, state: RunState, stop: StopSignals, callbacks: list[Any]
) -> None:
    """Train to the end of the run, or until `stop`: over one pipeline per epoch, or over one for all that is left.

    The order of epoch e under seed s is that of epoch 0 under seed s + e (measured on 2.10), so both read alike. A new
    Model of the same step compiles nothing again.
    """
    config, effect = plan.config, plan.effect
    while state.evaluated and not course.is_over(state) and stop.signum is None:
        first = state.step // plan.steps if effect.pipeline_per_epoch else 0
        ds.config.set_seed(config.seed + first)
        batches = train_batches(plan.folder, plan.dataset, plan.recipe, plan.pixels, config.batch_size, effect)
        start = state.step - first * plan.steps
        batches.set_init_step(start)
        epochs, call = rounds(effect.train, 1 if effect.pipeline_per_epoch else config.epochs, plan.steps, start)
        try:
            call.make(Model(step), epochs, batches, callbacks)
        except RuntimeError:
            if (said := foreign_label(plan, state.step)) is not None:
                raise ContractError(f"{plan.folder}: {said}; restore the set from a copy, or shard again") from None
            raise
        del batches  # the pipeline ends, and MindSpore's AutoTune writes its result


def _course(plan: RunPlan) -> Schedule:
    config = plan.config
    updates = config.epochs * plan.steps // config.accumulate
    warmup = round(config.warmup_epochs * plan.steps / config.accumulate)
    return Schedule(
        epochs=config.epochs,
        steps=plan.steps,
        rates=cosine_with_warmup(plan.lr, updates, warmup),
        accumulate=config.accumulate,
        patience=config.patience,
        save_every=config.save_every,
        max_overflows=config.max_overflows,
        fixed_scale=plan.effect.precision.fixed_scale,
    )


def _take_up(keeper: Checkpointer, progress: Progress, config: RunConfig) -> None:
    run, begun = keeper.folder, holds_run(keeper.folder)
    restored = begun and keeper.restore(progress.note)
    if not restored:
        write_whole(run / CONFIG, config.to_json() + "\n")
    where = "compiling the first step"
    if restored:
        where = f"going on after step {keeper.state.step}{_replay(keeper.plan, keeper.state)}"
    plan, kernels = keeper.plan, keeper.plan.effect.kernels
    level, affinity = "" if kernels is None else kernels.level, plan.effect.affinity
    append_start(run, keeper.state.step, plan.dataset.digest, plan.decisions, level, affinity)
    progress.note(f"run folder {run}; {where}")


def _replay(plan: RunPlan, state: RunState) -> str:
    """Return what the pipeline does before the first new step, for the line that reports a resume."""
    start, effect = state.step % plan.steps, plan.effect
    if effect.sink and not plan.config.exact_resume:
        return "; the pipeline skips to it and draws the augmentation anew"
    if not effect.pipeline_per_epoch and state.step:
        return f"; the pipeline first replays all {many(state.step, 'batch', 'batches')} before it"
    if not start:
        return ""
    took = state.meter.get("elapsed_s", 0.0)
    at_most = f", in less than the {took:.0f} s they took to train" if took >= 1 else ""
    return f"; the pipeline first replays {many(start, 'batch', 'batches')} of this epoch{at_most}"


def _run_folder(plan: RunPlan) -> contextlib.AbstractContextManager[Path]:
    return temporary_folder() if plan.effect.shard_id else run_folder(plan.config.out, plan.folder)


def _evaluate_val(plan: RunPlan, network: Any, stop: StopSignals) -> Scores | None:
    ranks = plan.effect.num_shards
    if ranks > 1:
        average_statistics(network, ranks)
    if plan.val_split is None:
        return None
    size = plan.config.batch_size
    batches = eval_batches(plan.folder, plan.dataset, "val", plan.recipe, plan.pixels, size, plan.effect)
    scores = evaluate_network(network, batches, size, stop.check)
    scores = sum_scores(scores) if ranks > 1 else scores
    if scores.rows != plan.val_split.rows:
        gave = f"val gave {many(scores.rows, 'row')} of the {plan.val_split.rows} that were sealed"
        raise TrainerError(f"{gave}; run 'dataprep verify'")
    return scores


def _finish(plan: RunPlan, run: Path, state: RunState, progress: Progress) -> TrainResult:
    share = None if plan.effect.sink else share_of_waiting(state.wait_s, state.work_s)
    bound = judge_wait(share, state.timed_steps)
    updates, skipped = state.step // plan.config.accumulate, state.last["skipped"]
    result = TrainResult(
        run=str(run),
        best_checkpoint=str(run / BEST),
        best_epoch=state.best_epoch,
        best_accuracy=state.best_accuracy,
        last_accuracy=state.last["val_accuracy"],
        epochs=state.last["epoch"],
        steps=state.step,
        seconds=round(state.seconds, 1),
        images_per_s=state.last["images_per_s"],
        dataset_digest=plan.dataset.digest,
        data_wait=None if share is None else round(share, 4),
        bound=bound,
        updates=updates,
        skipped=skipped,
        warning=warn_of_skipped(skipped, updates, overflow_advice(plan.effect.precision.fixed_scale)),
    )
    if bound is not None and share is not None:
        progress.note(what_limited(bound, share, plan.effect.device))
    elif plan.effect.sink:
        progress.note(SUNK)
    write_whole(run / RESULT, result.to_json())
    return result
