import csv
import io
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image

from tests.trainer.examples import picture
from trainer.cli import commands
from trainer.config import RunConfig
from trainer.errors import TrainerError
from trainer.evaluation.evaluate import evaluate_checkpoint
from trainer.evaluation.predict import Predicted, Prediction, csv_writer, is_sealed, jsonl_writer, predict
from trainer.feed.image_files import find_files

pytestmark = pytest.mark.slow

ASKED = RunConfig("", device="CPU", workers=2, batch_size=4)


def predictions(checkpoint: Path, *inputs: Path, top: int = 1) -> tuple[list[Prediction], Predicted]:
    rows: list[Prediction] = []
    done = predict(checkpoint, inputs, ASKED, "val", top, rows.append, lambda decisions: None, lambda: None)
    return rows, done


def test_files_on_disk_score_like_the_same_sealed_rows(stripes: Path, untrained: Path, tmp_path: Path) -> None:
    sealed, done = predictions(untrained, stripes, top=3)
    assert done == Predicted(13, 0)
    for row in sealed:
        _, number = row.name.split("/")
        (tmp_path / number).write_bytes(picture(int(number[:-4]) % 3, int(number[:-4])))
    on_disk = {Path(row.name).name: row.best for row in predictions(untrained, tmp_path, top=3)[0]}
    assert len(on_disk) == 13
    for row in sealed:
        assert [name for name, _ in on_disk[row.name[4:]]] == [name for name, _ in row.best]
        assert [score for _, score in on_disk[row.name[4:]]] == pytest.approx(
            [score for _, score in row.best], abs=1e-6
        )
        assert sum(score for _, score in row.best) == pytest.approx(1)


def test_sealed_rows_carry_their_label_and_agree_with_the_evaluation(stripes: Path, untrained: Path) -> None:
    rows, _ = predictions(untrained, stripes)
    found = evaluate_checkpoint(untrained, stripes, "val", ASKED, lambda decisions: None, lambda: None)
    assert sum(row.best[0][0] == row.label for row in rows) == found.correct


def test_broken_file_gives_a_row_with_its_error(untrained: Path, tmp_path: Path) -> None:
    good = picture(0, 0)
    for number in range(6):
        (tmp_path / f"{number}.jpg").write_bytes(good)
    # MindSpore's decoder dies by a signal on a JPEG cut before its scan.
    (tmp_path / "3.jpg").write_bytes(good[: good.index(b"\xff\xda")])
    (tmp_path / "notes.txt").write_text("no image")
    (tmp_path / "6 lost").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "7 pipe")
    rows, done = predictions(untrained, tmp_path)
    assert done == Predicted(8, 3, 1)
    errors = {Path(row.name).name: row.error for row in rows if row.error}
    assert set(errors) == {"3.jpg", "notes.txt", "6 lost", "7 pipe"}
    assert errors["6 lost"] == "No such file or directory"
    assert errors["7 pipe"] == "not a regular file: a FIFO"
    assert len({row.best for row in rows if not row.error}) == 1


def test_folders_are_walked_in_order_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b/1.png", "a/2.png", ".hidden/3.png", "a/.x.png", "a/Thumbs.db"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert find_files([tmp_path / "b" / "1.png", tmp_path])[0] == [
        tmp_path / name for name in ("b/1.png", "a/2.png", "b/1.png")
    ]


def test_missing_mixed_or_empty_inputs_are_rejected(stripes: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="gone does not exist; give image files"):
        find_files([tmp_path / "gone"])
    with pytest.raises(TrainerError, match="no files in"):
        find_files([tmp_path])
    with pytest.raises(TrainerError, match="is a sealed dataset: it must be the only INPUT"):
        is_sealed([tmp_path, stripes])


ROWS = [
    Prediction("x.png", (("a", 0.75), ("b", 0.25))),
    Prediction(os.fsdecode(b"caf\xe9,.png"), (), error="the file is empty"),
]


def test_csv_has_a_cell_for_each_class_and_score() -> None:
    stream = io.StringIO()
    write = csv_writer(stream, "path", sealed=False, top=2)
    for row in ROWS:
        write(row)
    assert list(csv.reader(io.StringIO(stream.getvalue()))) == [
        ["path", "error", "class_1", "score_1", "class_2", "score_2"],
        ["x.png", "", "a", "0.750000", "b", "0.250000"],
        ["caf%E9,.png", "the file is empty", "", "", "", ""],
    ]


@pytest.mark.parametrize("name", ["nothere.png", "empty"])
def test_rejected_inputs_write_nothing_to_stdout(name: str, untrained: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = CliRunner().invoke(commands.cli, ["predict", str(untrained), str(tmp_path / name), "--device", "CPU"])
    assert isinstance(done.exception, TrainerError)
    assert done.stdout == ""


def test_jsonl_has_one_object_per_line() -> None:
    stream = io.StringIO()
    write = jsonl_writer(stream, "key")
    for row in (ROWS[0], ROWS[1], Prediction("k", (("a", 1.0),), label="b")):
        write(row)
    assert [json.loads(line) for line in stream.getvalue().splitlines()] == [
        {"key": "x.png", "classes": [{"class": "a", "score": 0.75}, {"class": "b", "score": 0.25}]},
        {"key": "caf\udce9,.png", "error": "the file is empty"},
        {"key": "k", "label": "b", "classes": [{"class": "a", "score": 1.0}]},
    ]


def test_large_photo_is_scored_by_the_recipe_of_the_checkpoint(untrained: Path, tmp_path: Path) -> None:
    Image.new("RGB", (300, 200), "red").save(tmp_path / "red.webp")
    rows, done = predictions(untrained, tmp_path / "red.webp", top=9)
    assert (done, len(rows[0].best)) == (Predicted(1, 0), 3)


def test_files_that_are_not_images_are_listed_and_counted_separately(untrained: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(picture(0, 0))
    texts = {
        "b.jpg": "version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n",
        "c.jpg": "../../.git/annex/objects/aa/bb/SHA256E-s12--ff.jpg",
        "d.dvc": "outs:\n- md5: 12\n  path: d.jpg\n",
        "README": "Photos of 2024.",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "cut.jpg").write_bytes(picture(0, 0)[:40])
    rows, done = predictions(untrained, tmp_path)
    assert done == Predicted(2, 1, 4)
    said = {Path(row.name).name: row.error for row in rows}
    assert said["b.jpg"] == "not an image: a Git LFS pointer: run git lfs pull"
    assert said["c.jpg"] == "not an image: a git-annex pointer: run git annex get"
    assert said["d.dvc"] == "not an image: a DVC pointer: run dvc pull"
    assert said["README"] == "not an image: text"


def test_names_are_escaped_as_keys_so_that_a_row_is_one_line() -> None:
    name = os.fsdecode(b"a\xff\x1b[31m%FF\n\xe7\x8c\xab.jpg")
    for writer in (csv_writer, jsonl_writer):
        stream = io.StringIO(newline="")
        write = writer(stream, "path", False, 1) if writer is csv_writer else jsonl_writer(stream, "path")
        write(Prediction(name, (("cat", 1.0),)))
        text = stream.getvalue()
        assert "\x1b" not in text
        assert text.encode()  # valid UTF-8
        if writer is csv_writer:
            assert text.splitlines()[1] == "a%FF\\x1b[31m%25FF\\n猫.jpg,,cat,1.000000"
        else:
            assert json.loads(text)["path"] == "a%FF\x1b[31m%25FF\n猫.jpg"
