"""The text of results, for results that are made up."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from trainer.cli.text import error_tables, predict_text, written_text
from trainer.evaluation.details import ClassScore, WorstRow
from trainer.evaluation.evaluate import EvaluationFiles
from trainer.evaluation.predict import Predicted

pytestmark = pytest.mark.slow

CLASSES = (
    ClassScore("a", 1, 1, 1.0, None, 0),
    ClassScore("b", 2, 1, 0.5, "a", 1),
    ClassScore("c", 3, 2, 2 / 3, "b", 1),
)
WORST = (WorstRow("k4", "b", "a", 0.1, 9.0), WorstRow("k1", "a", "a", 0.4, 2.0), WorstRow("k2", "c", "b", 0.3, 1.0))


def tables(classes: tuple[ClassScore, ...], worst: tuple[WorstRow, ...]) -> str:
    return error_tables(SimpleNamespace(classes=classes, worst=worst))  # type: ignore[arg-type]


def test_error_tables_have_the_weakest_classes_and_only_wrong_images() -> None:
    lines = [line.split() for line in tables(CLASSES, WORST).splitlines()]
    assert lines[1:3] == [["b", "50.00%", "-", "2", "a", "(1)"], ["c", "66.67%", "-", "3", "b", "(1)"]]
    assert [line[0] for line in lines[4:]] == ["k4", "k2"]


def test_error_tables_are_empty_if_every_row_is_correct() -> None:
    assert tables(CLASSES[:1], WORST[1:2]) == ""


def test_errors_and_other_files_are_counted_if_there_are_any() -> None:
    assert predict_text(Predicted(3, 0), None) == "3 images"
    assert predict_text(Predicted(3, 1, 2), None) == "3 images, of which 1 could not be read; 2 files are not images"


def test_written_evaluation_names_its_folder_or_the_reason() -> None:
    assert written_text(EvaluationFiles(Path("there"))) == "report: there"
    assert "trainer report run" in written_text(EvaluationFiles(Path("run/eval/val"), Path("run")))
    failed = written_text(EvaluationFiles(Path("run/eval/val"), Path("run"), "no access"))
    assert failed.startswith("no access; use --report")
