"""Rows of several classes: trained, evaluated and predicted."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dataprep.tools.sample import draw_sample
from schemas.dataset import load_dataset
from schemas.errors import ContractError
from tests.dataprep.examples import shard
from trainer.cli.commands import cli
from trainer.config import RunConfig
from trainer.device.context import Machine
from trainer.evaluation.label_scores import LabelTable, average_precision
from trainer.nn.tasks.multilabel import binary_cross_entropy, score, sigmoid
from trainer.plan.run_plan import plan_run

pytestmark = pytest.mark.slow

TRAIN = ("--device", "CPU", "--workers", "1", "--batch-size", "16", "--image-size", "32", "--recipe", "none")


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sealed set of drawings, each with the tags of its shape: round or straight, and hollow."""
    folder = tmp_path_factory.mktemp("tagged")
    draw_sample(folder / "in", 128, 4)
    tags = {"circle": "round", "cross": "straight", "ring": "round|hollow", "square": "straight"}
    files = sorted(path for path in (folder / "in").rglob("*_0*"))
    lines = [f"{path.relative_to(folder / 'in')},{tags[path.parent.name]}" for path in files]
    (folder / "in" / "tags.csv").write_text("path,tags\n" + "\n".join(lines) + "\n")
    shard(folder / "in" / "tags.csv", folder / "out", schema="multilabel", val=0.25)
    return folder / "out"


def run(*arguments: Any) -> Any:
    done = CliRunner().invoke(cli, [*map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


def test_a_set_with_several_classes_is_trained_evaluated_and_predicted(
    tagged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = run("run", tagged, "--out", "run", "--epochs", 1, *TRAIN)
    assert "micro F1 at a probability of 0.5" in shown.stderr
    [line] = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert 0 <= json.loads(line)["val_accuracy"] <= 1
    assert 0 < json.loads(line)["val_loss"] < 9
    result = json.loads(run("eval", "run", tagged, "--device", "CPU", "--threshold", "0.3", "--json").stdout)
    assert result["rows"] == load_dataset(tagged).splits["val"].rows
    assert [one["name"] for one in result["classes"]] == ["hollow", "round", "straight"]
    assert 0 < result["mean_average_precision"] <= 1
    assert "mAP" in run("eval", "run", tagged, "--device", "CPU").stdout
    assert (tmp_path / "run" / "eval" / "val" / "classes.csv").read_text().startswith("name,rows,predicted")
    command = ("predict", "run", tagged, "--device", "CPU", "--top", 3, "--threshold", "0.5", "--out", "p.csv")
    run(*command)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "p.csv").read_text())))
    assert {row["label"] for row in rows} <= {"round", "straight", "hollow|round"}
    assert all(float(row[f"score_{n}"]) >= 0.5 for row in rows for n in (1, 2, 3) if row[f"score_{n}"])


def test_lists_of_labels_are_refused_in_the_plan(tagged: Path, tmp_path: Path) -> None:
    schema = load_dataset(tagged).schema.to_dict()
    schema["fields"][1]["role"] = "labels"  # type: ignore[index]
    (tmp_path / "lists.json").write_text(json.dumps(schema))
    shard(tagged, tmp_path / "lists", schema=str(tmp_path / "lists.json"))
    with pytest.raises(ContractError, match="lists of labels"):
        plan_run(RunConfig(str(tmp_path / "lists"), device="CPU"), Machine(ascend=False, cores=2))


def test_scores_of_a_batch() -> None:
    logits = np.array([[2.0, -1.0, 0.5], [-3.0, 4.0, -0.5]])
    targets = np.array([[1, 0, 0], [0, 1, 1]])
    found = score(logits, targets)
    assert (found.rows, found.right, found.predicted, found.labels) == (2, 2, 3, 3)
    assert found.headline == pytest.approx(4 / 6)
    expected = -np.where(targets, np.log(sigmoid(logits)), np.log(1 - sigmoid(logits))).mean(axis=1)
    assert binary_cross_entropy(logits, targets) == pytest.approx(expected)


def test_average_precision_counts_equal_scores_together() -> None:
    has = np.array([True, False, True, False])
    assert average_precision(np.array([0.9, 0.8, 0.7, 0.1]), has) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision(np.array([0.5, 0.5, 0.5, 0.5]), has) == pytest.approx(0.5)
    assert average_precision(np.zeros(4), np.zeros(4, bool)) is None


def test_scores_of_all_rows() -> None:
    table = LabelTable(["a", "b"])
    table.add(np.array([[0.9, 0.2], [0.6, 0.4]]), np.array([[1, 0], [0, 1]]))
    found = table.evaluation("c", "d", "val", 0.5, True)
    first, second = found.classes
    assert (first.rows, first.predicted, first.precision, first.recall) == (1, 2, 0.5, 1.0)
    assert (second.predicted, second.f1, second.average_precision) == (0, 0.0, 1.0)
    assert (found.micro_f1, found.macro_f1) == (pytest.approx(0.5), pytest.approx(1 / 3))
