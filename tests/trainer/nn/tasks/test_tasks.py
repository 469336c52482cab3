"""A record kind of a few lines: the regression of one number, trained for an epoch."""

import dataclasses
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mindspore import Tensor, nn

from schemas.dataset import load_dataset
from schemas.errors import ContractError
from schemas.layout import DATASET
from schemas.record import SCHEMAS
from trainer import loop
from trainer.cli.progress import Lines
from trainer.config import RunConfig
from trainer.device.context import InEffect, Machine
from trainer.errors import TrainerError
from trainer.evaluation.evaluate import evaluate_checkpoint
from trainer.nn.tasks import TASKS, find_task
from trainer.nn.tasks.task import Scores, Task
from trainer.plan.run_plan import plan_run
from trainer.signals import StopSignals

pytestmark = pytest.mark.slow


class SquaredError(nn.Cell):  # type: ignore[misc]
    def construct(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return ((outputs[:, 0] - targets) ** 2).mean()


@dataclasses.dataclass(frozen=True)
class NearScores(Scores):
    near: int = 0

    @property
    def headline(self) -> float:
        return self.near / self.rows


def score(outputs: np.ndarray[Any, Any], targets: np.ndarray[Any, Any]) -> NearScores:
    errors = abs(outputs[:, 0] - targets)
    return NearScores(len(targets), float((errors**2).sum()), int((errors < 0.5).sum()))


TASK = Task(outputs=lambda classes: 1, loss=lambda config, weights: SquaredError(), score=score, no_scores=NearScores())
CONFIG = RunConfig("", device="CPU", workers=1, prefetch=2, image_size=32, batch_size=8, epochs=1, recipe="none")


@pytest.fixture
def toy(make_set: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A sealed set of the kind toy, whose label is the number to predict."""
    schemas = tmp_path / "schemas"
    shutil.copytree(SCHEMAS, schemas)
    kind = json.loads((schemas / "classification.json").read_text()) | {"name": "toy", "kind": "toy"}
    (schemas / "toy.json").write_text(json.dumps(kind))
    monkeypatch.setattr("schemas.record.SCHEMAS", schemas)
    folder = make_set({"train": [0, 1, 2, 7] * 4, "val": 6})
    dataset = load_dataset(folder)
    schema = dataclasses.replace(dataset.schema, kind="toy")
    (folder / DATASET).write_bytes(dataclasses.replace(dataset, schema=schema).to_json())
    monkeypatch.chdir(tmp_path)
    return folder


def test_toy_kind_trains_and_is_not_evaluated_as_classes(
    toy: Path, cpu: InEffect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TASKS, "toy", f"{__name__}:TASK")
    result = loop.train(dataclasses.replace(CONFIG, dataset=str(toy)), Lines(io.StringIO(), 2), StopSignals())
    (line,) = (Path(result.run) / "metrics.jsonl").read_text().splitlines()
    metrics = json.loads(line)
    assert metrics["loss"] > 0
    assert metrics["val_loss"] > 0
    assert metrics["val_accuracy"] == result.best_accuracy
    with pytest.raises(ContractError, match="its kind is 'toy'"):
        evaluate_checkpoint(Path(result.run), toy, "val", CONFIG, lambda decisions: None, lambda: None)


def test_kind_without_a_task_is_rejected_in_the_plan(toy: Path) -> None:
    with pytest.raises(ContractError, match="records of kind 'toy' cannot be trained on; supported kinds: class"):
        plan_run(dataclasses.replace(CONFIG, dataset=str(toy)), Machine(ascend=False, cores=2))


def test_mixing_needs_classes(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "toy", f"{__name__}:TASK")
    with pytest.raises(TrainerError, match="mixup and cutmix need class labels"):
        plan_run(dataclasses.replace(CONFIG, dataset=str(toy), mixup=0.2), Machine(ascend=False, cores=2))


@pytest.mark.parametrize("kind", TASKS)
def test_tasks_of_the_table_score_no_rows_as_zero(kind: str) -> None:
    task = find_task(kind)
    assert task.no_scores + task.no_scores == task.no_scores
    assert task.no_scores.rows == 0
