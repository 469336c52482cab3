"""Save a run in its folder and restore it: last, best and older checkpoints, and matching metrics."""

import contextlib
import os
import platform
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mindspore import Parameter, Tensor

from schemas.errors import ContractError
from schemas.storage.files import naming, sync, until_uninterrupted
from trainer.device.heartbeat import SAVE, beat
from trainer.errors import Interrupted, disk_error
from trainer.nn.all_reduce import Gather
from trainer.nn.step import TrainStep
from trainer.plan.run_plan import RunPlan
from trainer.runs import checkpoint, kill_points
from trainer.runs.elastic import changes
from trainer.runs.folder import BEST, LAST, METRICS, OLDER, contains_run, older_checkpoints, partial_checkpoint
from trainer.runs.resume import same_data
from trainer.runs.state import RunState
from trainer.signals import StopSignals
from trainer.training.rank_state import gather_differences, gather_times, own_values, take_times


class Checkpointer:
    """Writer and reader of the checkpoints in `folder`. `started` is time.perf_counter() at process start."""

    def __init__(self, folder: Path, plan: RunPlan, step: TrainStep, state: RunState, started: float) -> None:
        self.folder = folder
        self.plan = plan
        self.step = step
        self.state = state
        self.started = started
        self.gather = Gather(plan.effect.num_shards)

    def check(self, stop: StopSignals) -> None:
        """Raise Interrupted on all ranks if one of them has received a signal."""
        if any(self.gather(b"" if stop.signum is None else b"stop")):
            raise Interrupted(stop.signum or signal.SIGTERM, None)

    def save(self, best: bool = False) -> None:
        """Write last.ckpt, from which a run can be resumed. If `best` is True, first write the weights to best.ckpt.

        With --keep N above 1, the latest N checkpoints are also kept as step-*.ckpt. Every rank must call this method;
        rank 0 writes for all.
        """
        kill_points.kill_point("save", self.state.step)
        beat(SAVE, self.state.step)
        others = self._gather_others()
        if self.plan.effect.shard_id:
            return
        now = time.perf_counter()
        self.state.seconds += now - self.started
        self.started = now
        weights = self.step.inference_parameters()
        meta = self._meta()
        if best:
            checkpoint.save(self.folder / BEST, weights, meta)
            kill_points.kill_point("epoch.best", self.state.step)
        training = checkpoint.Training(self.step.training_parameters(), self.state, others)
        if self.plan.config.keep == 1:
            checkpoint.save(self.folder / LAST, weights, meta, training)
            return
        older = self.folder / OLDER.format(self.state.step)
        checkpoint.save(older, weights, meta, training)
        self._link(older)
        for path in older_checkpoints(self.folder)[: -self.plan.config.keep]:
            path.unlink(missing_ok=True)

    def _gather_others(self) -> list[dict[str, Any]]:
        if self.plan.effect.num_shards == 1:
            return []
        self.state.ranks = gather_times(self.state, self.gather)
        return [
            {name: Tensor(value) for name, value in values.items()}
            for values in gather_differences(self._parameters(), self.gather)[1:]
        ]

    def _parameters(self) -> dict[str, Parameter]:
        states = self.step.training_parameters()
        return {**self.step.inference_parameters(), **{checkpoint.TRAINING + name: states[name] for name in states}}

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

        Every rank must call this method; rank 0 chooses the file for all. `note` is called with a sentence if a damaged
        checkpoint is skipped. Raises ContractError if all checkpoints are damaged, or if the checkpoint belongs to
        another dataset.
        """
        if self.plan.effect.shard_id:
            chosen = self.gather(b"")[0]
            if chosen:
                path = Path(os.fsdecode(chosen))
                self._load(path, *self._read(path))
            return bool(chosen)
        found = self._restore_newest(note) if contains_run(self.folder) else None
        self.gather(os.fsencode(found or ""))
        return found is not None

    def _restore_newest(self, note: Callable[[str], None]) -> Path | None:
        paths = [self.folder / LAST, *reversed(older_checkpoints(self.folder))]
        damage = None
        for path in [path for path in paths if path.exists()]:
            try:
                entries = self._read(path)
            except ContractError as error:
                damage = damage or error
                continue
            if damage is not None:
                note(f"{damage}; resuming from {path} instead")
            if (changed := self._load(path, *entries)) is not None:
                note(changed)
            self._cut_metrics()
            return path
        if damage is not None:
            raise ContractError(f"{damage}; give another --out to start again")
        self._cut_metrics()
        return None

    def _read(self, path: Path) -> tuple[dict[str, Any], checkpoint.Meta, checkpoint.Training]:
        try:
            weights, meta, training = checkpoint.load_training(path)
        except OSError as error:
            if not self.plan.effect.shard_id:
                raise
            advice = "give all hosts the same --out, a folder that they share"
            raise disk_error(error, f"{platform.node()} cannot read {path}", advice) from None
        same_data(self.folder, meta.dataset_digest, self.plan.dataset.digest)
        return weights, meta, training

    def _load(
        self, path: Path, weights: dict[str, Any], meta: checkpoint.Meta, training: checkpoint.Training
    ) -> str | None:
        """Load the state of this rank; return a sentence about what changes with the number of ranks, if it does."""
        checkpoint.fill(self.step.inference_parameters(), weights, path)
        checkpoint.fill(self.step.training_parameters(), training.parameters, path)
        self.state.__dict__.update(training.state.__dict__)
        rank, ranks = self.plan.effect.shard_id, self.plan.effect.num_shards
        others, parameters = training.others, self._parameters()
        own = own_values(weights, training, rank, ranks)
        checkpoint.fill({name: parameters[name] for name in own if name in parameters}, own, path)
        before = max(len(training.state.ranks), 1), meta.config.batch_size
        take_times(self.state, rank, ranks)
        within = self.state.step % self.plan.steps > 0 or not self.state.evaluated
        return changes(before, (ranks, self.plan.config.batch_size), within, bool(others))

    def _cut_metrics(self) -> None:
        # Epochs after the checkpoint are trained again and write their lines again.
        with contextlib.suppress(FileNotFoundError), naming(self.folder / METRICS):
            os.truncate(self.folder / METRICS, self.state.metrics_bytes)
