import struct
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.trainer.run_folders import epoch, lines, write_run
from trainer.report.charts import charts
from trainer.report.figures import Chart, Curve, draw, matrix_png, spread
from trainer.report.history import read_run, read_runs
from trainer.report.series import Series

SVG = "{http://www.w3.org/2000/svg}"


def of(*values: float) -> Series:
    return Series(np.arange(1, len(values) + 1, dtype=np.float64), np.array(values, np.float64))


def chart(*curves: Curve, unit: str = "", may_log: bool = False) -> Chart:
    return Chart("epoch-loss", "Loss", "epoch", unit, curves, may_log=may_log)


def elements(svg: str, name: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter(f"{SVG}{name}"))


def texts(svg: str) -> list[str]:
    return [str(text.text) for text in elements(svg, "text")]


def test_figure_has_its_title_axis_labels_and_the_pages_colours() -> None:
    svg = draw(chart(Curve("train", 0, of(3, 2, 1)), Curve("val", 1, of(4, 3, 2))))
    assert {"Loss", "epoch", "train", "val"} <= set(texts(svg))
    assert "stroke: #2563eb" in svg
    assert "stroke: #c2410c" in svg


def test_seventh_curve_has_the_first_colour_again_and_its_own_label() -> None:
    svg = draw(chart(*(Curve(str(i), i, of(i, i + 1)) for i in range(7))))
    assert "6" in texts(svg)
    assert svg.count("stroke: #2563eb") >= 2


def test_shares_are_shown_as_per_cent() -> None:
    assert {"20 %", "40 %", "60 %"} <= set(texts(draw(chart(Curve("val", 0, of(0.2, 0.5, 0.7)), unit="%"))))


def test_widely_different_losses_get_an_axis_marked_as_logarithmic() -> None:
    wide, close = of(90, 9, 0.2), of(3, 2, 1)
    assert "Loss, logarithmic" in texts(draw(chart(Curve("val", 0, wide), may_log=True)))
    assert "Loss" in texts(draw(chart(Curve("val", 0, close), may_log=True)))
    assert not chart(Curve("val", 0, of(90, 0)), may_log=True).log


def test_one_spike_in_many_steps_does_not_flatten_the_rest_and_is_marked() -> None:
    values = np.linspace(2, 1, 1000)
    values[500] = 900
    svg = draw(Chart("step-loss", "Loss", "step", "", (Curve("1", 0, of(*values), noisy=True),)))
    values_at = [str(text.text) for text in elements(svg, "text") if "text-anchor: end" in text.get("style", "")]
    assert max(map(float, values_at)) < 4
    assert len([mark for mark in elements(svg, "use") if "fill: #2563eb" in mark.get("style", "")]) == 1


def test_hundred_thousand_steps_are_a_small_figure() -> None:
    noise = np.random.default_rng(0).normal(1, 0.1, 100_000)
    assert len(draw(chart(Curve("1", 0, of(*noise), noisy=True)))) < 120_000


def test_single_point_and_gaps_are_drawn() -> None:
    assert "Loss" in texts(draw(chart(Curve("train", 0, of(1.0)))))
    assert "Loss" in texts(draw(chart(Curve("train", 0, of(np.nan, 1.0, np.inf, 2.0)))))


def test_figure_has_a_text_description() -> None:
    said = chart(Curve("val", 0, of(0.2, 0.75, 0.5)), unit="%").in_words
    assert said == "Loss by epoch: val from 20 to 50 %, lowest 20, highest 75"


def test_labels_are_moved_apart_in_their_order() -> None:
    assert spread([0.5, 0.5, 0.1], 0.1) == pytest.approx([0.5, 0.6, 0.1])
    moved = spread([0.99, 1.0, 0.98], 0.1)
    assert moved == pytest.approx([0.9, 1.0, 0.8])


@pytest.mark.parametrize(("classes", "side"), [(30, 390), (500, 500), (2500, 500)])
def test_matrix_is_a_picture_of_bounded_size(classes: int, side: int) -> None:
    png = matrix_png(np.eye(classes, dtype=np.int64))
    assert struct.unpack(">II", png[16:24]) == (side, side)


def test_a_single_row_in_a_large_matrix_can_be_seen(tmp_path: Path) -> None:
    from matplotlib import image

    confusion = np.eye(400, dtype=np.int64) * 1000
    confusion[3, 7] = 1
    (tmp_path / "matrix.png").write_bytes(matrix_png(confusion))
    pixels = image.imread(tmp_path / "matrix.png")
    assert pixels[3, 7, 3] > 0.15
    assert pixels[3, 7, 0] > pixels[3, 7, 2], "wrong is orange"
    assert pixels[3, 3, 2] > pixels[3, 3, 0], "right is blue"
    assert pixels[5, 9, 3] == 0


def test_single_run_has_train_and_val_in_one_chart(tmp_path: Path) -> None:
    found = charts([read_run(write_run(tmp_path / "run"))], "epoch")
    assert [one.name for one in found] == [
        "epoch-loss",
        "epoch-val_accuracy",
        "epoch-lr",
        "epoch-images_per_s",
        "epoch-data_wait",
    ]
    assert [curve.label for curve in found[0].curves] == ["train", "val"]


def test_several_runs_have_a_chart_for_each_value_with_a_curve_of_each(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name) for name in ("a", "b")]
    lines(runs[1] / "metrics.jsonl", [epoch(1, val_loss=None, val_accuracy=None)])
    found = {one.name: [curve.label for curve in one.curves] for one in charts(read_runs(runs), "epoch")}
    assert found["epoch-loss"] == ["1", "2"]
    assert found["epoch-val_loss"] == ["1"]


def test_value_that_no_run_has_gets_no_chart(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    lines(run / "metrics.jsonl", [epoch(1, val_loss=None, val_accuracy=None)])
    lines(run / "steps.jsonl", [{"step": 1, "loss": "high"}])
    assert "epoch-val_accuracy" not in {one.name for one in charts([read_run(run)], "epoch")}
    assert charts([read_run(run)], "step") == []


def test_step_at_which_a_run_resumed_is_marked(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    first = (run / "starts.jsonl").read_text()
    (run / "starts.jsonl").write_text(first + first.replace('"step": 0', '"step": 15'))
    assert charts([read_run(run)], "step")[0].marks == (15.0,)
    assert charts([read_run(run)], "epoch")[0].marks == (1.5,)


def test_an_axis_from_zero_leaves_room_above_values_that_lie_close_together() -> None:
    svg = draw(
        Chart("epoch-images_per_s", "Throughput", "epoch", "", (Curve("1", 0, of(99.8, 100.0, 99.9)),), from_zero=True)
    )
    (line,) = [
        path for path in elements(svg, "path") if "stroke: #2563eb" in path.get("style", "") and path.get("clip-path")
    ]
    heights = [float(y) for y in line.get("d", "").replace("M", " ").replace("L", " ").split()[1::2]]
    (plot,) = elements(svg, "clipPath")
    assert min(heights) > float(plot[0].get("y", "0")) + 0.05 * float(plot[0].get("height", "0"))


def test_curves_by_step_are_omitted_if_few_steps_were_logged(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    logged = (run / "steps.jsonl").read_text().splitlines(keepends=True)
    for count, shown in ((4, False), (5, True)):
        (run / "steps.jsonl").write_text("".join(logged[:count]))
        assert bool(charts([read_run(run)], "step")) == shown
