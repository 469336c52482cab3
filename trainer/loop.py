"""Main path: from a RunConfig to a trained, evaluated and stored model. Reads from top to bottom."""

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindspore.train import Model

from trainer import checkpoint
from trainer.callbacks import EpochEnd, Watch
from trainer.config import RunConfig
from trainer.data import check_labels, eval_batches, pipeline_errors, train_batches
from trainer.decision import table
from trainer.device import apply, this_machine
from trainer.errors import Interrupted, TrainerError
from trainer.evaluate import evaluate_network
from trainer.logs import log_callbacks
from trainer.meter import Meter
from trainer.network import build_network
from trainer.objective import Scores, SmoothedCrossEntropy
from trainer.optim import OPTIMIZERS, cosine_with_warmup, parameter_groups
from trainer.plan import RunPlan, check_files, plan_run
from trainer.progress import Progress, Silent
from trainer.ranks import OverRanks, average_statistics, sum_scores
from trainer.runfolder import BEST, CONFIG, LAST, METRICS, run_folder, scratch, throw_away_folder
from trainer.signals import StopSignals
from trainer.step import TrainStep


@dataclass(frozen=True)
class TrainResult:
    """What a run came to. Accuracies are those on val, None without one; `run` is the run's folder."""

    run: str
    best_checkpoint: str
    best_epoch: int
    best_accuracy: float | None
    last_accuracy: float | None
    epochs: int
    steps: int
    seconds: float
    images_per_s: float
    dataset_digest: str


def train(config: RunConfig, progress: Progress, stop: StopSignals) -> TrainResult:
    """Train as asked, telling `progress`, until done or told by `stop`; all is written to a new run folder.

    Raises TrainerError and ContractError before anything is compiled, Interrupted when a signal stopped the run.
    """
    began = time.perf_counter()
    home = Path.cwd()
    plan = plan_run(config, this_machine(config.device))
    effect = plan.effect
    for split in plan.used_splits if effect.shard_id == 0 else ():  # the other ranks wait for rank 0 to join them
        check_files(plan.folder, plan.dataset.splits[split], config.full_check)
        stop.check()
    if effect.shard_id:
        progress = Silent()  # rank 0 speaks and writes for all
    progress.note(table(plan.decisions))

    with _run_folder(plan) as run, scratch(run), pipeline_errors(plan.folder):
        apply(effect)
        for split in plan.used_splits:
            check_labels(plan.folder, plan.dataset, split)
        network = build_network(config.model, home, len(plan.dataset.classes), plan.pixels.size, effect)
        batches = train_batches(plan.folder, plan.dataset, plan.recipe, plan.pixels, config.batch_size, effect)

        rates = cosine_with_warmup(plan.lr, config.epochs * plan.steps, round(config.warmup_epochs * plan.steps))
        groups = parameter_groups(network.trainable_params(), plan.weight_decay)
        optimizer = OPTIMIZERS[config.optimizer].make(groups, rates)
        network = effect.precision.amp.make(network)
        scaler = effect.precision.scaler.make() if effect.precision.scaler else None
        over_ranks = OverRanks(optimizer.parameters, effect.num_shards) if effect.num_shards > 1 else None
        step = TrainStep(network, SmoothedCrossEntropy(config.label_smoothing), optimizer, scaler, over_ranks)

        def evaluate() -> Scores | None:
            scores = _evaluate_val(plan, network, stop)
            step.set_train(True)
            return scores

        def save(epoch: int, steps: int, accuracy: float | None, best: bool) -> None:
            if effect.shard_id:
                return
            meta = _meta(plan, epoch, steps, accuracy)
            checkpoint.save(run / LAST, network, meta)
            if best:
                checkpoint.save(run / BEST, network, meta)

        stop.check()
        (run / CONFIG).write_text(config.to_json() + "\n")
        progress.note(f"run folder {run}; compiling the first step")
        meter = Meter(config.batch_size * effect.num_shards)
        watch = Watch(meter, progress, stop, config.epochs, scaled=scaler is not None)
        epoch_end = EpochEnd(meter, progress, stop, rates, run / METRICS, evaluate, save)
        logs = [] if effect.shard_id else log_callbacks(config, run, meter, rates, run / METRICS, progress.note)
        effect.train.make(Model(step), config.epochs, batches, [watch, epoch_end, *logs])
        if stop.signum is not None:
            raise Interrupted(stop.signum, run / LAST if (run / LAST).exists() else None)
    return _result(plan, run, epoch_end, time.perf_counter() - began)


def _run_folder(plan: RunPlan) -> contextlib.AbstractContextManager[Path]:
    return throw_away_folder() if plan.effect.shard_id else run_folder(plan.config.out, plan.folder)


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
        raise TrainerError(f"val gave {scores.rows} rows, {plan.val_split.rows} were sealed; run 'dataprep verify'")
    return scores


def _meta(plan: RunPlan, epoch: int, step: int, accuracy: float | None) -> checkpoint.Meta:
    return checkpoint.Meta(
        config=plan.config,
        classes=plan.dataset.classes,
        dataset_digest=plan.dataset.digest,
        pixels=plan.pixels,
        epoch=epoch,
        step=step,
        accuracy=accuracy,
        policy=dict(plan.dataset.policy),
    )


def _result(plan: RunPlan, run: Path, epoch_end: EpochEnd, seconds: float) -> TrainResult:
    last = epoch_end.reports[-1]
    return TrainResult(
        run=str(run),
        best_checkpoint=str(run / BEST),
        best_epoch=epoch_end.best.epoch,
        best_accuracy=epoch_end.best.accuracy,
        last_accuracy=last.val_accuracy,
        epochs=last.epoch,
        steps=last.step,
        seconds=round(seconds, 1),
        images_per_s=last.images_per_s,
        dataset_digest=plan.dataset.digest,
    )
