"""Main path: from a RunConfig to a trained, evaluated and stored model."""

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
from trainer.device.heartbeat import EVALUATION, STARTING, beat
from trainer.device.precision import overflow_advice
from trainer.device.sink import rounds
from trainer.errors import Interrupted, TrainerError
from trainer.feed.autotune import keep_tuned, stop_autotune
from trainer.feed.pipeline import eval_batches, train_batches
from trainer.nn.all_reduce import average_statistics
from trainer.nn.collective_errors import collective_errors
from trainer.nn.optimizer import cosine_with_warmup
from trainer.nn.step import TrainStep
from trainer.nn.tasks.task import Scores
from trainer.plan.preflight import check_start, resumes
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
    run_folder,
    temporary_folder,
)
from trainer.runs.history import append_start, start_settings
from trainer.runs.kill_points import kill_point
from trainer.runs.result import TrainResult, warn_of_skipped
from trainer.runs.state import RunState
from trainer.signals import StopSignals
from trainer.training.assemble import network_and_step
from trainer.training.callbacks import ActiveRun, EpochCallback, Schedule, StepCallback, StepNumbers
from trainer.training.checkpointing import Checkpointer
from trainer.training.lineage import invalid_label, undecodable, write_nonfinite
from trainer.training.logs import log_callbacks
from trainer.training.meter import Meter, WaitReport, judge_wait, share_of_waiting
from trainer.training.outputs import evaluate_network
from trainer.training.progress import Progress, Silent
from trainer.training.rank_state import waits
from trainer.training.stop_votes import StopVotes


def train(config: RunConfig, progress: Progress, stop: StopSignals, home: Path = Path()) -> TrainResult:
    """Train as configured, write all results into the run folder, and return a summary.

    An existing run is resumed from its last checkpoint. `progress` receives the reports. `home` is as in RunPlan.
    Raises TrainerError or ContractError if the run cannot start or fails, and Interrupted if `stop` has a signal.
    """
    started = time.perf_counter()
    beat(STARTING, 0)
    plan = plan_run(config, this_machine(config.device), start_settings(config.out), home)
    effect = plan.effect
    if effect.shard_id:
        progress = Silent()  # only rank 0 reports
    else:  # and only rank 0 checks: the other ranks wait for it to join them
        check_start(plan)
        check_data(plan, plan.used_splits, stop.check)
    progress.settings(plan.decisions)
    for warning in plan.warnings:
        progress.note(f"warning: {warning}")

    state = RunState()

    def undecodable_key() -> str | None:
        return undecodable(plan, state.step)

    waiting = collective_errors(lambda: state.step)
    with _run_folder(plan) as run, prepared(plan, run, undecodable_key) as scratch, waiting:
        schedule = _schedule(plan)
        network, step = network_and_step(plan, schedule.rates, progress.note, not resumes(plan))
        checkpointer = Checkpointer(run, plan, step, state, started)
        checkpointer.check(stop)
        _start_or_resume(checkpointer, progress, config)

        votes = StopVotes(stop, step, effect.num_shards)

        def evaluate() -> Scores | None:
            scores = _evaluate_val(plan, network, votes, state)
            step.set_train(True)
            return scores

        def explain(problem: str, first: int, last: int, element: Any) -> str:
            return write_nonfinite(run, plan, problem, (first, last), element)

        meter = Meter(config.batch_size * effect.num_shards, effect.sink)
        active = ActiveRun(schedule, state, step, meter, progress, votes.agreed)
        on_step = StepCallback(active, checkpointer.save, explain)
        on_epoch = EpochCallback(active, run / METRICS, evaluate, checkpointer.save)
        logs = [] if effect.shard_id else log_callbacks(config, run, meter, schedule, state, progress.note)
        if not state.evaluated:
            on_step.enter_epoch(state.step // plan.steps)
            on_epoch.finish_epoch()
        if state.evaluated and not schedule.is_over(state):
            numbers = StepNumbers(schedule, state, effect.pipeline_per_epoch)
            callbacks = [numbers, votes, on_step, on_epoch, *logs]
            _train_epochs(plan, step, schedule, state, votes.agreed, callbacks)
            if config.autotune:
                progress.note(keep_tuned(scratch, run / AUTOTUNE_REPORT, run / AUTOTUNE_CONFIG))
        if not schedule.is_over(state):
            assert votes.agreed.signum is not None
            raise Interrupted(votes.agreed.signum, None if effect.shard_id else run / LAST)
        return _finish(plan, run, state, progress)


def _train_epochs(
    plan: RunPlan, step: TrainStep, schedule: Schedule, state: RunState, stop: StopSignals, callbacks: list[Any]
) -> None:
    """Train until the run is complete or `stop` has a signal, with a pipeline per epoch or a pipeline for all epochs.

    Both kinds of pipeline read the rows in the same order: epoch e with seed s equals epoch 0 with seed s + e (measured
    on 2.10). MindSpore does not compile the step again for a new Model.
    """
    config, effect = plan.config, plan.effect
    while state.evaluated and not schedule.is_over(state) and stop.signum is None:
        first = state.step // plan.steps if effect.pipeline_per_epoch else 0
        ds.config.set_seed(config.seed + first)
        source = plan.folder, plan.dataset, plan.recipe, plan.pixels
        batches = train_batches(*source, config.batch_size, effect, plan.task.columns)
        start = state.step - first * plan.steps
        batches.set_init_step(start)
        epochs, call = rounds(effect.train, 1 if effect.pipeline_per_epoch else config.epochs, plan.steps, start)
        try:
            call.make(Model(step), epochs, batches, callbacks)
        except RuntimeError:
            if (problem := invalid_label(plan, state.step)) is not None:
                raise ContractError(f"{plan.folder}: {problem}; restore the dataset or shard again") from None
            raise
        del batches  # ends the pipeline, which makes MindSpore's AutoTune write its result


def _schedule(plan: RunPlan) -> Schedule:
    config = plan.config
    updates = config.epochs * plan.steps // config.accumulate
    warmup = round(config.warmup_epochs * plan.steps / config.accumulate)
    return Schedule(
        epochs=config.epochs,
        steps=plan.steps,
        rates=cosine_with_warmup(plan.lr, updates, warmup),
        accumulate=config.accumulate,
        patience=config.patience,
        val_every=config.val_every,
        save_every=config.save_every,
        max_overflows=config.max_overflows,
        fixed_scale=plan.effect.precision.fixed_scale,
    )


def _start_or_resume(checkpointer: Checkpointer, progress: Progress, config: RunConfig) -> None:
    run, plan, state = checkpointer.folder, checkpointer.plan, checkpointer.state
    if checkpointer.restore(progress.note):
        action = f"resuming after step {state.step}{_replay(plan, state)}"
    else:
        write_whole(run / CONFIG, config.to_json() + "\n")
        action = "compiling the first step"
    kernels = plan.effect.kernels
    level, affinity = "" if kernels is None else kernels.level, plan.effect.affinity
    append_start(run, state.step, plan.dataset.digest, plan.decisions, level, affinity)
    progress.note(f"run folder {run}; {action}")


def _replay(plan: RunPlan, state: RunState) -> str:
    """Return a phrase on the batches that the pipeline skips or replays before the first new step."""
    start, effect = state.step % plan.steps, plan.effect
    if effect.sink and not plan.config.exact_resume:
        return "; the pipeline skips to this step, with new random augmentation"
    if not effect.pipeline_per_epoch and state.step:
        return f"; the pipeline first replays {many(state.step, 'earlier batch', 'earlier batches')}"
    if not start:
        return ""
    elapsed_s = state.meter.get("elapsed_s", 0.0)
    at_most = f", in less than {elapsed_s:.0f} s" if elapsed_s >= 1 else ""
    return f"; the pipeline first replays {many(start, 'batch', 'batches')} of this epoch{at_most}"


def _run_folder(plan: RunPlan) -> contextlib.AbstractContextManager[Path]:
    return temporary_folder() if plan.effect.shard_id else run_folder(plan.config.out, plan.folder)


def _evaluate_val(plan: RunPlan, network: Any, votes: StopVotes, state: RunState) -> Scores | None:
    stop_autotune()
    kill_point("evaluate", state.step)
    beat(EVALUATION, state.step)
    if plan.effect.num_shards > 1:
        average_statistics(votes.step, plan.effect.num_shards)
    if plan.val_split is None:
        return None
    size, task = plan.config.batch_size, plan.task
    source = plan.folder, plan.dataset, "val", plan.recipe, plan.pixels
    batches = eval_batches(*source, size, plan.effect, task.columns)

    def after_batch() -> None:
        beat(EVALUATION, state.step)
        votes.own.check()

    with votes.step.averaged():
        scores = votes.summed(lambda: evaluate_network(network, task, batches, size, after_batch), task.no_scores)
    if scores.rows != plan.val_split.rows:
        raise TrainerError(
            f"val has {many(plan.val_split.rows, 'sealed row')}, but {scores.rows} were read; run 'dataprep verify'"
        )
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
        ranks=[] if plan.effect.sink else waits(state),
    )
    if bound is not None or plan.effect.sink:
        progress.bottleneck(WaitReport(bound, share, plan.effect.device))
    write_whole(run / RESULT, result.to_json())
    return result
