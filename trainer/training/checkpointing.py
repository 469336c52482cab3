"""Stores a run in its folder and finds it again: last, best and older checkpoints, and metrics that fit them."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from schemas.errors import ContractError
from schemas.storage.files import sync
from trainer.errors import naming, until_uninterrupted
from trainer.nn.step import TrainStep
from trainer.plan.run_plan import RunPlan
from trainer.runs import checkpoint, kill_points
from trainer.runs.folder import BEST, LAST, METRICS
from trainer.runs.resume import same_data
from trainer.runs.state import RunState

OLDER = "step-{:09d}.ckpt"


class Checkpointer:
    """Saves the run in `folder` and restores it. `began` is the clock (s) at which this process took the run up."""

    def __init__(self, folder: Path, plan: RunPlan, step: TrainStep, state: RunState, began: float) -> None:
        self.folder = folder
        self.plan = plan
        self.step = step
        self.state = state
        self.began = began

    def save(self, best: bool = False) -> None:
        """Write last.ckpt with all that a resume needs; before that best.ckpt with the weights alone, when `best`.

        With --keep above 1 each is kept under its step as well, so many of them.
        """
        if self.plan.effect.shard_id:
            return  # rank 0 writes for all
        now = time.perf_counter()
        self.state.seconds += now - self.began
        self.began = now
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
        for path in sorted(self.folder.glob("step-*.ckpt"))[: -self.plan.config.keep]:
            path.unlink(missing_ok=True)

    @until_uninterrupted
    def _link(self, older: Path) -> None:
        part = self.folder / f".link-{os.getpid()}.ckpt"
        part.unlink(missing_ok=True)
        try:
            os.link(older, part)
        except OSError:  # a file system without links
            with naming(part):
                shutil.copyfile(older, part)
                sync(part)
        with naming(self.folder / LAST):
            os.replace(part, self.folder / LAST)
            sync(self.folder)

    def _meta(self) -> checkpoint.Meta:
        state, plan = self.state, self.plan
        whole = state.step % plan.steps == 0 and state.evaluated
        return checkpoint.Meta(
            config=plan.config,
            classes=plan.dataset.classes,
            dataset_digest=plan.dataset.digest,
            pixels=plan.pixels,
            epoch=-(-state.step // plan.steps),
            step=state.step,
            accuracy=state.last.get("val_accuracy") if whole else None,
            policy=dict(plan.dataset.policy),
            kind=plan.dataset.schema.kind,
        )

    def restore(self, note: Callable[[str], None]) -> bool:
        """Take up the newest sound checkpoint into the step and the state; False when there is none yet.

        Raises ContractError when checkpoints are there and none is sound, or when they are of another dataset.
        """
        paths = [self.folder / LAST, *sorted(self.folder.glob("step-*.ckpt"), reverse=True)]
        damage = None
        for path in [path for path in paths if path.exists()]:
            try:
                weights, meta, training = checkpoint.load_training(path)
            except ContractError as error:
                damage = damage or error
                continue
            if damage is not None:
                note(f"{damage}; going on from {path} instead")
            same_data(self.folder, meta.dataset_digest, self.plan.dataset.digest)
            checkpoint.fill(self.step.inference_parameters(), weights, path)
            checkpoint.fill(self.step.training_parameters(), training.parameters, path)
            self.state.__dict__.update(training.state.__dict__)
            self._cut_metrics()
            return True
        if damage is not None:
            raise ContractError(f"{damage}; give --out another name to begin anew")
        self._cut_metrics()
        return False

    def _cut_metrics(self) -> None:
        # Lines of epochs after the checkpoint: they are trained again, and written again.
        with contextlib.suppress(FileNotFoundError), naming(self.folder / METRICS):
            os.truncate(self.folder / METRICS, self.state.metrics_bytes)
