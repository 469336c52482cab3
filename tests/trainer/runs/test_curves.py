import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from trainer.errors import TrainerError
from trainer.runs.curves import draw_curves, nice_ticks

SVG = "{http://www.w3.org/2000/svg}"


def run(folder: Path, epochs: int, **changed: object) -> Path:
    file = folder / "metrics.jsonl"
    base = {"loss": 2.0, "lr": 0.003, "images_per_s": 900.0, "val_loss": 1.5, "val_accuracy": 0.5}
    lines = [json.dumps({"epoch": i + 1, **base, "loss": 2.0 / (i + 1), **changed}) for i in range(epochs)]
    file.write_text("\n".join(lines))
    return file


def texts(svg: str) -> list[str]:
    return [str(each.text) for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize("epochs", [1, 2, 12, 300])
def test_curves_are_valid_xml_with_one_panel_per_measure(epochs: int, tmp_path: Path) -> None:
    shown = texts(draw_curves(run(tmp_path, epochs)))
    for title in ("Loss", "Accuracy on val", "Learning rate, end of epoch", "Images per second"):
        assert title in shown
    assert {"train", "val", "1"} <= set(shown)
    assert len(shown) < 100, "ticks do not crowd"


def test_measure_that_is_missing_or_not_finite_is_left_out(tmp_path: Path) -> None:
    shown = texts(draw_curves(run(tmp_path, 3, val_loss=None, val_accuracy=None, images_per_s=float("nan"))))
    assert shown.count("not measured") == 2
    assert "val" not in shown


def test_file_without_epochs_or_without_json_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="has no epoch yet"):
        draw_curves(run(tmp_path, 0))
    (tmp_path / "metrics.jsonl").write_text("{")
    with pytest.raises(TrainerError, match="cannot read"):
        draw_curves(tmp_path / "metrics.jsonl")


@pytest.mark.parametrize("values", [[0, 1], [0.003, 0.00001], [5, 5], [0, 0], [63.5, 98.9], [-2, 1e6], [100, 100]])
def test_ticks_are_few_and_enclose_the_values(values: list[float]) -> None:
    ticks = nice_ticks(values)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] <= min(values) * (1 + 1e-9) or ticks[0] <= min(values)
    assert ticks[-1] >= max(values) * (1 - 1e-9)
