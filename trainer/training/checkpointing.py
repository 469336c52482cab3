"""Save a run in its folder and restore it: last, best and older checkpoints, and matching metrics."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from schemas.errors import ContractError
from schemas.storage.files import naming, sync, until_uninterrupted
from trainer.nn.step import TrainStep
from trainer.plan.run_plan import RunPlan
from trainer.runs import checkpoint, kill_points
from trainer.runs.folder import BEST, LAST, METRICS, OLDER, older_checkpoints, partial_checkpoint
from trainer.runs.resume import same_data
from trainer.runs.state import RunState


class Checkpointer:
    """Writer and reader of the checkpoints in `folder`. `started` is time.perf_counter() at process start."""

    def __init__(self, folder: Path, plan: RunPlan, step: TrainStep, state: RunState, started: float) -> None:
        self.folder = folder
        self.plan = plan
        self.step = step
        self.state = state
        self.started = started

    def save(self, best: bool = False) -> None:
        """Write last.ckpt, from which a run can be resumed. If `best` is True, first write the weights to best.ckpt.

        With --keep N above 1, the latest N checkpoints are also kept as step-*.ckpt.
        """
        if self.plan.effect.shard_id:
            return  # only rank 0 writes
        now = time.perf_counter()
        self.state.seconds += now - self.started
        self.started = now
        weights = self.step.inference_parameters()
        meta = self._meta()
        if best:
            checkpoint.save(self.folder / BEST, weights, meta)
            kill_points.kill_point("epoch.best", self.state.step)
        training = checkpoint.Training(self.step.training_parameters(), self.state)
        if self.plan.config.keep == 1:
            checkpoint.save(self.folder / LAST, weights, meta, training)
            return
        older = self.folder / OLDER.format(self.state.step)
        checkpoint.save(older, weights, meta, training)
        self._link(older)
        for path in older_checkpoints(self.folder)[: -self.plan.config.keep]:
            path.unlink(missing_ok=True)

    @until_uninterrupted
    def _link(self, older: Path) -> None:
        part = partial_checkpoint(self.folder / LAST)
        part.unlink(missing_ok=True)
        try:
            os.link(older, part)
        except OSError:  # the file system has no hard links
            with naming(part):
                shutil.copyfile(older, part)
                sync(part)
        with naming(self.folder / LAST):
            os.replace(part, self.folder / LAST)
            sync(self.folder)

    def _meta(self) -> checkpoint.Meta:
        state, plan = self.state, self.plan
        epoch_done = state.step % plan.steps == 0 and state.evaluated
        return checkpoint.Meta(
            config=plan.config,
            classes=plan.dataset.classes,
            dataset_digest=plan.dataset.digest,
            pixels=plan.pixels,
            epoch=-(-state.step // plan.steps),
            step=state.step,
            accuracy=state.last.get("val_accuracy") if epoch_done else None,
            policy=dict(plan.dataset.policy),
            kind=plan.dataset.schema.kind,
        )

    def restore(self, note: Callable[[str], None]) -> bool:
        """Load the newest intact checkpoint into step and state. Return False if there is no checkpoint.

        `note` is called with a sentence if a damaged checkpoint is skipped. Raises ContractError if all checkpoints are
        damaged, or if the checkpoint belongs to another dataset.
        """
        paths = [self.folder / LAST, *reversed(older_checkpoints(self.folder))]
        damage = None
        for path in [path for path in paths if path.exists()]:
            try:
                weights, meta, training = checkpoint.load_training(path)
            except ContractError as error:
                damage = damage or error
                continue
            if damage is not None:
                note(f"{damage}; resuming from {path} instead")
            same_data(self.folder, meta.dataset_digest, self.plan.dataset.digest)
            checkpoint.fill(self.step.inference_parameters(), weights, path)
            checkpoint.fill(self.step.training_parameters(), training.parameters, path)
            self.state.__dict__.update(training.state.__dict__)
            self._cut_metrics()
            return True
        if damage is not None:
            raise ContractError(f"{damage}; give another --out to start again")
        self._cut_metrics()
        return False

    def _cut_metrics(self) -> None:
        # Epochs after the checkpoint are trained again and write their lines again.
        with contextlib.suppress(FileNotFoundError), naming(self.folder / METRICS):
            os.truncate(self.folder / METRICS, self.state.metrics_bytes)
