from pathlib import Path

import pytest

from dataprep.errors import DataprepError
from dataprep.tools.sample import SHAPES, SIDES, draw_sample
from tests.dataprep.examples import shard


def test_the_same_seed_draws_the_same_files(tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        draw_sample(tmp_path / name, images=24, classes=3, seed=seed)
    contents = [
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }
        for name in "abc"
    ]
    assert contents[0] == contents[1] != contents[2]


def test_broken_files_are_rejected_and_unusual_files_normalised(tmp_path: Path) -> None:
    from dataprep.options import Budget

    drawn = draw_sample(tmp_path / "raw", images=60, classes=len(SHAPES))
    summary = shard(
        tmp_path / "raw",
        tmp_path / "out",
        max_rejects=Budget(len(drawn.broken), False),
        max_class_loss=Budget(2, False),
    )
    assert summary.rejected == {"truncated": 1, "empty": 1, "not_an_image": 1}
    assert summary.changed == {"cmyk_to_rgb": 1, "depth_16_to_8": 1, "exif_rotated": 1}
    assert summary.ignored == {"hidden": 1}
    assert (summary.written, summary.classes) == (63, len(SHAPES))


def test_sizes_and_formats_are_mixed(tmp_path: Path) -> None:
    from PIL import Image

    draw_sample(tmp_path / "raw", images=60)
    images = [Image.open(path) for path in (tmp_path / "raw").rglob("*_0*.*")]
    assert {image.format for image in images} == {"JPEG", "PNG"}
    sides = [side for image in images for side in image.size]
    assert SIDES[0] <= min(sides) < 70
    assert 140 < max(sides) <= SIDES[1]


@pytest.mark.parametrize(("images", "classes"), [(1200, 1), (1200, 11), (5, 6)])
def test_impossible_numbers_are_rejected(tmp_path: Path, images: int, classes: int) -> None:
    with pytest.raises(DataprepError, match="choose"):
        draw_sample(tmp_path / "raw", images, classes)


def test_folder_with_files_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(DataprepError, match="is not an empty folder"):
        draw_sample(tmp_path)
