import csv
import json
from pathlib import Path

import numpy as np
import pytest

from trainer.errors import TrainerError
from trainer.evaluation.details import ClassScore, Details, Evaluation, write_report
from trainer.nn.tasks.classification import score

pytestmark = pytest.mark.slow

CLASSES = ("a", "b", "c")


def counted(logits: list[list[float]], labels: list[int], keep: int = 9, classes: tuple[str, ...] = CLASSES) -> Details:
    details = Details(classes, keep)
    for start in range(0, len(labels), 2):  # in batches of two
        part = slice(start, start + 2)
        keys = [f"k{i}" for i in range(len(labels))][part]
        details.add(np.array(logits[part], np.float32), np.array(labels[part], np.int32), keys)
    return details


MIXED = counted([[5, 0, 0], [0, 5, 0], [0, 5, 1], [0, 0, 5], [9, 0, 0]], [0, 1, 2, 2, 1])


def test_counts_equal_those_of_score() -> None:
    logits, labels = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50, dtype=np.int32) % 3
    plain, details = score(logits, labels), Details(CLASSES, 0)
    details.add(logits, labels, map(str, labels))
    assert (details.rows, details.correct) == (plain.rows, plain.correct)
    assert details.loss_sum == pytest.approx(plain.loss_sum)


def test_confusion_has_labels_in_rows_and_predictions_in_columns() -> None:
    assert MIXED.confusion.tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    assert MIXED.by_class == (
        ClassScore("a", 1, 1, 1.0, None, 0, 0.5, 2 / 3),
        ClassScore("b", 2, 1, 0.5, "a", 1, 0.5, 0.5),
        ClassScore("c", 2, 1, 0.5, "b", 1, 1.0, 2 / 3),
    )


def test_class_without_rows_has_no_accuracy() -> None:
    assert counted([[5, 0, 0]], [0]).by_class[1] == ClassScore("b", 0, 0, None, None, 0)


def test_worst_rows_come_first_and_only_as_many_as_asked_for() -> None:
    assert sorted(row.key for row in MIXED.worst) == ["k0", "k1", "k2", "k3", "k4"]
    worst = counted([[5, 0, 0], [0, 5, 0], [0, 5, 1], [0, 0, 5], [9, 0, 0]], [0, 1, 2, 2, 1], keep=2).worst
    assert [(row.key, row.label, row.predicted) for row in worst] == [("k4", "b", "a"), ("k2", "c", "b")]
    assert worst[0].loss == pytest.approx(9.0002, abs=1e-3)
    assert worst[0].score == pytest.approx(np.exp(-worst[0].loss))


def test_top_five_counts_equal_logits_by_class_number() -> None:
    classes = tuple("abcdefg")
    details = counted([[1] * 7, [1] * 7, [0, 1, 2, 3, 4, 5, 6]], [4, 5, 2], classes=classes)
    assert (details.in_top, details.correct) == (2, 0)


def test_logits_that_are_not_finite_are_in_no_top_and_are_the_worst() -> None:
    details = counted([[0, 1, 2], [np.nan, 0, 0]], [2, 2])
    assert details.in_top == 1
    assert details.worst[0].key == "k1"


def evaluation(details: Details) -> Evaluation:
    rates = details.correct / details.rows, None, details.loss_sum / details.rows, True
    found = details.by_class, details.confusion, details.worst
    return Evaluation("best.ckpt", 1, 3, "data", "val", details.rows, details.correct, *rates, *found)


def table(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_report_is_a_json_and_three_tables(tmp_path: Path) -> None:
    write_report(tmp_path / "report", evaluation(MIXED))
    assert json.loads((tmp_path / "report" / "report.json").read_text())["confusion"] == [
        [1, 0, 0],
        [1, 1, 0],
        [0, 1, 1],
    ]
    assert table(tmp_path / "report" / "classes.csv")[:2] == [
        ["name", "rows", "correct", "accuracy", "taken_for", "taken", "precision", "f1"],
        ["a", "1", "1", "1.0", "", "0", "0.5", "0.6666666666666666"],
    ]
    assert table(tmp_path / "report" / "confusion.csv")[:2] == [["label \\ predicted", *CLASSES], ["a", "1", "0", "0"]]
    assert [row[:3] for row in table(tmp_path / "report" / "worst.csv")[:2]] == [
        ["key", "label", "predicted"],
        ["k4", "b", "a"],
    ]


def test_report_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainerError, match="cannot write the report into"):
        write_report(tmp_path / "file", evaluation(MIXED))
