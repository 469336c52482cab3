import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image, ImageFont

from tests.trainer.examples import CLASSES
from trainer.cli.commands import cli
from trainer.config import RunConfig
from trainer.device.context import InEffect
from trainer.errors import TrainerError
from trainer.feed.recipes import Pixels
from trainer.plan.preview import CAPTION, MARGIN, Preview, caption, draw_preview, drawable, to_picture

pytestmark = pytest.mark.slow

QUICK = RunConfig("", device="Ascend", workers=1, image_size=56, batch_size=12, recipe="none")


def test_sheet_shows_the_images_of_the_pipeline_with_their_labels(stripes: Path, tmp_path: Path) -> None:
    file = tmp_path / "sheet.png"
    assert draw_preview(replace(QUICK, dataset=str(stripes)), file) == Preview(str(file), 32, 48, "none")
    sheet = np.asarray(Image.open(tmp_path / "sheet.png"))
    side = 112  # 56 pixels, doubled
    assert sheet.shape == (4 * (side + CAPTION + MARGIN) + MARGIN, 8 * (side + MARGIN) + MARGIN, 3)
    first = sheet[MARGIN : MARGIN + side, MARGIN : MARGIN + side]
    assert 60 < first.mean() < 150, "the stripes' grey, denormalised"
    assert np.array_equal(first[::2, ::2], first[1::2, 1::2]), "doubled, not blurred"
    assert (sheet[MARGIN + side : MARGIN + side + CAPTION, MARGIN : MARGIN + side] < 100).any(), "a label"


@pytest.mark.parametrize(("batch_size", "mixup", "shown"), [(26, None, 26), (12, 0.4, 32), (20, 0.4, 16)])
def test_sheet_shows_rows_of_several_batches_if_batches_are_mixed_differently(
    batch_size: int, mixup: float | None, shown: int, stripes: Path, tmp_path: Path
) -> None:
    config = replace(QUICK, dataset=str(stripes), batch_size=batch_size, mixup=mixup, recipe="trivial")
    assert draw_preview(config, tmp_path / "sheet.png").images == shown


def test_command_reports_the_sheet_and_creates_no_run(
    stripes: Path, tmp_path: Path, cpu: InEffect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["run", str(stripes), "--workers", "1", "--preview", "sheet.png"]
    told = f"{tmp_path / 'sheet.png'}: 32 images of 48 after recipe small; nothing trained\n"
    assert CliRunner().invoke(cli, asked).stdout == told
    assert json.loads(CliRunner().invoke(cli, [*asked, "--json"]).stdout)["images"] == 32
    assert [path.name for path in tmp_path.iterdir()] == ["sheet.png"]


def test_picture_is_the_image_before_normalisation() -> None:
    pixels = Pixels(4, (123.0, 116.0, 103.0), (58.0, 57.0, 56.0))
    image = np.random.default_rng(0).integers(0, 256, (4, 4, 3)).astype(np.uint8)
    normal = ((image - np.array(pixels.mean)) / np.array(pixels.std)).transpose(2, 0, 1).astype(np.float32)
    np.testing.assert_array_equal(to_picture(normal, pixels), image)


@pytest.mark.parametrize(
    ("label", "text"),
    [
        (np.int32(1), "down"),
        (np.array([0, 1, 0], np.float32), "down"),
        (np.array([0.3, 0, 0.7], np.float32), "70% plain + 30% across"),
    ],
)
def test_caption_names_the_class_or_the_shares_of_two(label: object, text: str) -> None:
    assert caption(label, CLASSES) == text


def test_names_in_any_script_are_drawn(tmp_path: Path, make_set: object) -> None:
    folder = make_set({"train": 3}, classes=("猫", "ß" * 90, "собака"))  # type: ignore[operator]
    draw_preview(replace(QUICK, dataset=str(folder), batch_size=3), tmp_path / "sheet.png")
    assert Image.open(io.BytesIO((tmp_path / "sheet.png").read_bytes())).width == 3 * (112 + MARGIN) + MARGIN


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("sheet.jpg", "must end in .png"), ("missing/sheet.png", "cannot write the preview .*No such file")],
)
def test_invalid_file_is_rejected(name: str, sentence: str, stripes: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match=sentence):
        draw_preview(replace(QUICK, dataset=str(stripes)), tmp_path / name)


def test_class_whose_name_the_font_cannot_draw_is_named_by_its_label() -> None:
    names = ["cat", "\u732b", "dog on a mat"]
    assert drawable(names, ImageFont.load_default()) == ["cat", "class 1", "dog on a mat"]
