"""Files that `trainer eval` writes for `trainer report`: tables, and thumbnails of the right rows."""

import io
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from schemas.dataset import load_dataset
from schemas.errors import ContractError
from tests.trainer.examples import SIDE, picture
from trainer.config import RunConfig
from trainer.device.context import InEffect
from trainer.errors import TrainerError
from trainer.evaluation import evaluate
from trainer.evaluation.details import Evaluation, WorstRow
from trainer.evaluation.evaluate import EvaluationFiles, evaluate_checkpoint, write_evaluation
from trainer.feed.picture import thumbnail
from trainer.feed.pipeline import encoded_at
from trainer.report.evaluated import read_evaluations, read_picture

pytestmark = pytest.mark.slow

ASKED = RunConfig("", device="CPU", workers=1, batch_size=5)


@pytest.fixture(scope="module")
def found(untrained: Path, stripes: Path, cpu: InEffect) -> Evaluation:
    return evaluate_checkpoint(untrained, stripes, "train", ASKED, lambda decisions: None, lambda: None, keep=6)


def run_folder(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


def test_rows_are_found_by_their_index_in_any_shard(stripes: Path, cpu: InEffect) -> None:
    rows = encoded_at(stripes, load_dataset(stripes), "train", [40, 3, 3, 0])
    # Shard s of two holds every second row, from row s on: place 40 is the 17th row of the second one.
    assert {place: key for place, (key, _) in rows.items()} == {
        0: "train/0.jpg",
        3: "train/6.jpg",
        40: "train/33.jpg",
    }
    assert rows[40][1] == picture(33 % 3, 33)


def test_evaluation_of_a_run_is_written_to_its_folder_and_read_back(found: Evaluation, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run")
    assert write_evaluation(found, run, None) == EvaluationFiles(run / "eval" / "train", run)
    (again,), unread = read_evaluations(run)
    assert unread == []
    assert (again.split, again.rows, again.accuracy, again.epoch) == ("train", 48, found.accuracy, 1)
    assert again.worst == found.worst
    assert again.classes == found.classes
    for place, row in enumerate(found.worst):
        number = int(row.key.removeprefix("train/").removesuffix(".jpg"))
        content = read_picture(run, "train", place)
        assert content is not None
        shown = np.asarray(Image.open(io.BytesIO(content)).resize((SIDE, SIDE), Image.Resampling.BOX), np.float64)
        original = np.asarray(Image.open(io.BytesIO(picture(number % 3, number))), np.float64)
        assert abs(shown - original).mean() < 3, row.key


def test_evaluation_of_a_single_checkpoint_is_written_only_with_report(
    found: Evaluation, untrained: Path, tmp_path: Path
) -> None:
    assert write_evaluation(found, untrained, None) is None
    assert write_evaluation(found, untrained, tmp_path / "there") == EvaluationFiles(tmp_path / "there")
    assert len(list((tmp_path / "there" / "worst").iterdir())) == 6


def test_pictures_of_an_earlier_evaluation_are_deleted(found: Evaluation, tmp_path: Path) -> None:
    evaluate.write_thumbnails(tmp_path, found)
    (tmp_path / "worst" / "mine.jpg").touch()
    evaluate.write_thumbnails(tmp_path, replace(found, worst=found.worst[:2]))
    assert sorted(os.listdir(tmp_path / "worst")) == ["0001.jpg", "0002.jpg", "mine.jpg"]


def test_pictures_of_an_earlier_evaluation_stay_if_no_new_ones_are_written(found: Evaluation, tmp_path: Path) -> None:
    evaluate.write_thumbnails(tmp_path, found)
    with pytest.raises(ContractError):
        evaluate.write_thumbnails(tmp_path, replace(found, dataset=str(tmp_path / "gone")))
    assert len(os.listdir(tmp_path / "worst")) == len(found.worst)


def test_row_of_another_key_gets_no_picture(found: Evaluation, tmp_path: Path) -> None:
    others = tuple(replace(row, key="other") for row in found.worst)
    assert evaluate.write_thumbnails(tmp_path, replace(found, worst=others)) == 0


def test_picture_that_cannot_be_read_is_left_out(
    found: Evaluation, make_set: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make_set({"val": 3}, last_image=b"no image")
    worst = tuple(WorstRow(f"val/{row}.jpg", "a", "b", 0.5, 1.0, row) for row in range(3))
    assert (
        evaluate.write_thumbnails(tmp_path / "out", replace(found, dataset=str(folder), split="val", worst=worst)) == 2
    )


def test_read_only_run_folder_is_reported_and_read_only_report_is_an_error(found: Evaluation, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run")
    (run / "eval").write_text("in the way")
    written = write_evaluation(found, run, None)
    assert written is not None
    assert (written.folder, written.run) == (run / "eval" / "train", run)
    assert "cannot write the report into" in written.error
    with pytest.raises(TrainerError, match="cannot write the report into"):
        write_evaluation(found, run, run / "eval" / "x")


@pytest.mark.parametrize(("size", "shown"), [((640, 320), (320, 160)), ((8, 8), (320, 320)), ((200, 100), (200, 100))])
def test_thumbnails_are_shrunk_or_enlarged_by_a_whole_factor(size: tuple[int, int], shown: tuple[int, int]) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", size, (9, 99, 199)).save(buffer, "PNG")
    assert Image.open(io.BytesIO(thumbnail(buffer.getvalue(), 320))).size == shown


def test_reports_of_earlier_versions_are_read(found: Evaluation, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run")
    write_evaluation(found, run, None)
    path = run / "eval" / "train" / "report.json"
    said = json.loads(path.read_text())
    del said["epoch"], said["step"]
    for row in said["worst"]:
        del row["row"]
    path.write_text(json.dumps(said))
    (again,), unread = read_evaluations(run)
    assert (unread, again.epoch, again.worst[0].row) == ([], None, None)
