import io
import os
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dataprep.images.check import preview_image
from dataprep.images.thumbnails import File, Sheet, Thumbnailer, choose_sheet, thumbnail
from schemas.images.policy import ImageRejected
from tests.dataprep.examples import encoded


def test_the_first_part_of_a_truncated_image_is_visible() -> None:
    whole = Image.linear_gradient("L").resize((400, 400))
    data = encoded(whole, "JPEG")
    image = preview_image(data[: len(data) // 2], 64, 1 << 20)
    assert image.size == (64, 64)
    assert image.getpixel((0, 0)) < 10
    assert 40 < image.getpixel((0, 24)) < 110


def test_a_preview_is_upright_and_opaque() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert preview_image(encoded(Image.new("RGB", (40, 20)), "JPEG", exif=exif), 16, 1 << 20).size == (8, 16)
    assert preview_image(encoded(Image.new("RGBA", (4, 4)), "PNG"), 16, 1 << 20).getpixel((0, 0)) == (255, 255, 255)


def test_an_image_of_too_many_pixels_is_not_decoded() -> None:
    with pytest.raises(ImageRejected):
        preview_image(encoded(Image.new("1", (2000, 2000)), "PNG"), 16, 1 << 20)


def test_a_thumbnail_stays_within_its_bytes() -> None:
    noise = Image.effect_noise((500, 300), 200).convert("RGB")
    made = thumbnail(encoded(noise, "PNG"), Sheet(1, 64, 1200))
    assert made is not None
    assert len(made.data) <= 1200
    with Image.open(io.BytesIO(made.data)) as image:
        assert image.size == (made.width, made.height)


@pytest.mark.parametrize("sheets", [1, 3, 10, 100, 1000])
def test_sheets_stay_within_their_budget(sheets: int) -> None:
    for budget in (2_600_000, 3_900_000):
        sheet = choose_sheet(sheets, budget)
        assert sheets * sheet.pictures * sheet.picture_bytes <= budget


def test_fewer_sheets_are_larger_ones() -> None:
    chosen = [choose_sheet(sheets, 3_900_000) for sheets in (1000, 100, 30, 10)]
    assert chosen == sorted(chosen, key=lambda sheet: sheet.pictures * sheet.picture_bytes)
    assert (chosen[0].pictures, chosen[0].side) == (2, 72)
    assert (chosen[-1].pictures, chosen[-1].side) == (16, 224)


def serve_badly(pipe: Any) -> None:
    """A child that crashes on one picture and hangs on another."""
    while True:
        picture, _ = pipe.recv()
        if picture == b"die":
            os._exit(1)
        if picture == b"stall":
            time.sleep(60)
        pipe.send(picture)


@pytest.mark.slow
def test_a_picture_that_crashes_or_hangs_its_child_affects_no_other() -> None:
    wanted = [(name, name.encode()) for name in ("a", "die", "b", "stall", "c", "d")]
    with Thumbnailer(deadline_s=2.0, serve=serve_badly) as maker:
        made = list(maker.make(wanted, Sheet(1, 16, 1000)))
    assert made == [("a", b"a"), ("die", None), ("b", b"b"), ("stall", None), ("c", b"c"), ("d", b"d")]


def test_a_file_that_changed_after_it_was_rejected_is_not_shown(tmp_path: Path) -> None:
    data = encoded(Image.linear_gradient("L"), "PNG")
    (tmp_path / "image").write_bytes(data)
    os.mkfifo(tmp_path / "fifo")
    sheet = Sheet(1, 32, 4000)
    assert thumbnail(File(str(tmp_path / "image"), len(data)), sheet) is not None
    assert thumbnail(File(str(tmp_path / "image"), len(data) + 1), sheet) is None
    assert thumbnail(File(str(tmp_path / "fifo"), 0), sheet) is None
    assert thumbnail(File(str(tmp_path / "none"), 5), sheet) is None
