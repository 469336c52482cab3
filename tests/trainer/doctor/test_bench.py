import dataclasses
import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from mindspore.dataset import vision

from tests.trainer.diagnosis import measured
from tests.trainer.examples import picture
from trainer.cli.commands import cli
from trainer.cli.doctor_text import bench_text
from trainer.config import RunConfig
from trainer.device.context import InEffect
from trainer.doctor import bench
from trainer.doctor.bench import Comparison, ImageFiles, compare, for_pixels
from trainer.doctor.class_folders import ClassImages
from trainer.doctor.notes import Note, SkippedFiles
from trainer.errors import TrainerError
from trainer.signals import StopSignals

pytestmark = pytest.mark.slow

QUICK = RunConfig("", workers=1, prefetch=2, image_size=16, batch_size=8, recipe="imagenet")
FOUND = Comparison(
    dataset="/data/set",
    images="/data/photos",
    rows=2200,
    shards=15,
    files=2200,
    recipe="imagenet",
    image_size=224,
    batch_size=32,
    workers=2,
    python_decodes=True,
    sources=[measured(bench.SHARDS, 500), measured(bench.FILES, 400), measured(bench.PYTHON, 200)],
    gains={bench.FILES: 1.25, bench.PYTHON: 2.5},
    rounds=5,
    seconds=60.0,
)


def run(config: RunConfig, images: Path | None) -> Comparison:
    return compare(config, images, 1.0, lambda text: None, StopSignals())


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """24 images in three class folders, and a text file."""
    for number in range(24):
        folder = tmp_path / "photos" / f"class{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(picture(number % 3, number))
    (tmp_path / "photos" / "class0" / "notes.txt").write_text("none")
    return tmp_path / "photos"


@pytest.mark.parametrize("split_folder", [False, True])
def test_three_sources_are_measured_on_the_users_files(
    split_folder: bool, stripes: Path, photos: Path, tmp_path: Path, cpu: InEffect
) -> None:
    images = photos
    if split_folder:
        images = tmp_path / "split"
        images.mkdir()
        photos.rename(images / "train")
    found = run(replace(QUICK, dataset=str(stripes)), images)
    assert [one.part for one in found.sources] == [bench.SHARDS, bench.FILES, bench.PYTHON]
    assert all(one.images_per_s > 0 for one in found.sources)
    assert (found.files, found.rows, found.shards, found.python_decodes) == (24, 48, 2, True)
    assert set(found.gains) == {bench.FILES, bench.PYTHON}


def test_rows_of_the_dataset_replace_files_and_are_removed_afterwards(
    stripes: Path, tmp_path: Path, cpu: InEffect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = run(replace(QUICK, dataset=str(stripes)), None)
    assert (found.images, found.files, found.rows, found.shards) == (None, 48, 48, 1)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([vision.Decode(), vision.Resize(8)], ["Resize"]),
        ([vision.RandomCropDecodeResize(8), vision.HWC2CHW()], ["RandomResizedCrop", "HWC2CHW"]),
        ([lambda image: image], None),
    ],
)
def test_image_decoded_by_pillow_is_not_decoded_again(given: list[Any], kept: list[str] | None) -> None:
    left = for_pixels(given)
    assert (None if left is None else [type(one).__name__ for one in left]) == kept


def test_crop_keeps_its_settings() -> None:
    crop = vision.RandomCropDecodeResize((8, 9), (0.2, 0.5), (0.9, 1.1), vision.Inter.BICUBIC, 3)
    [same] = for_pixels([crop]) or []
    assert (same.size, same.scale, same.ratio, same.max_attempts) == ((8, 9), (0.2, 0.5), (0.9, 1.1), 3)


def test_python_source_gives_pixels_or_bytes(photos: Path) -> None:
    file = photos / "class1" / "1.jpg"
    pixels, label = ImageFiles([(file, 1)], decodes=True)[0]
    assert (pixels.shape, pixels.dtype, label) == ((32, 32, 3), np.uint8, 1)
    data, _ = ImageFiles([(file, 1)], decodes=False)[0]
    assert data.tobytes() == file.read_bytes()


def test_folder_that_is_missing_or_has_too_few_images_is_rejected(
    stripes: Path, photos: Path, tmp_path: Path, cpu: InEffect
) -> None:
    with pytest.raises(TrainerError, match=r"--against .*nowhere is not a folder"):
        run(replace(QUICK, dataset=str(stripes)), tmp_path / "nowhere")
    with pytest.raises(TrainerError, match=r"24 images in class folders of .* too few for 2 batches of 16"):
        run(replace(QUICK, dataset=str(stripes), batch_size=16), photos)


def test_undecodable_file_is_not_attributed_to_the_dataset(stripes: Path, photos: Path, cpu: InEffect) -> None:
    (photos / "class0" / "notes.txt").unlink()
    (photos / "class0" / "0.jpg").write_bytes(picture(0, 0)[:100])
    with pytest.raises(TrainerError, match=r"ImageFolderDataset failed on .*photos: .*omit --against"):
        run(replace(QUICK, dataset=str(stripes)), photos)


def test_text_ends_with_the_gain_of_shards() -> None:
    assert bench_text(FOUND).splitlines() == [
        "224 pixels, batch 32, recipe imagenet, 2 decoding threads; 2,200 rows in shards,",
        "2,200 files in /data/photos; warm cache, 5 interleaved rounds",
        "",
        "source                                  images/s   ratio   cores      memory",
        "MindDataset                                  500    1.00     1.9     2.0 GiB",
        "ImageFolderDataset                           400    0.80     1.9     2.0 GiB",
        "GeneratorDataset, Pillow decodes             200    0.40     1.9     2.0 GiB",
        "",
        "Shards are 1.25 times as fast as ImageFolderDataset and 2.50 times as fast as",
        "GeneratorDataset in Python threads: 15 shards instead of 2,200 files.",
    ]
    sample = bench_text(replace(FOUND, images=None, shards=1, python_decodes=False))
    assert "2,200 files written from a sample of the rows;" in " ".join(sample.split())
    assert "GeneratorDataset, bytes from Python" in sample
    assert sample.endswith("1 shard instead of 2,200 files.")


def test_command_prints_the_text_or_all_of_it_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[Path | None, float]] = []

    def fake(config: RunConfig, images: Path | None, seconds: float, *rest: Callable[..., Any]) -> Comparison:
        given.append((images, seconds))
        return FOUND

    monkeypatch.setattr(bench, "compare", fake)
    assert CliRunner().invoke(cli, ["bench", "set"]).stdout == bench_text(FOUND) + "\n"
    told = CliRunner().invoke(cli, ["bench", "set", "--against", "photos", "--seconds", "9", "--json"]).stdout
    assert json.loads(told) == dataclasses.asdict(FOUND)
    assert given == [(None, 60.0), (Path("photos"), 9.0)]


def listed(plan: Any, photos: Path) -> tuple[Path, ClassImages, list[Note]]:
    told: list[Note] = []
    return *bench.given_images(plan, photos, Path.cwd(), told.append), told


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("set", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return SimpleNamespace(folder=tmp_path / "set")


def test_plain_class_folders_are_read_as_they_are(plan: Any, photos: Path) -> None:
    (photos / "class0" / "notes.txt").unlink()
    folder, found, told = listed(plan, photos)
    assert (folder, len(found.files), found.skipped, told) == (photos, 24, Counter(), [])


def test_rejected_files_are_left_out(plan: Any, photos: Path) -> None:
    broken = photos / "class1" / "broken.jpg"
    broken.write_bytes(picture(0, 0)[:100])
    assert len(listed(plan, photos)[1].files) == 25
    (plan.folder / "rejects.jsonl").write_text('{"key": "class1/broken.jpg", "reason": "truncated"}\n')
    links, found, told = listed(plan, photos)
    assert told == [SkippedFiles(photos, {"not JPEG, PNG or BMP": 1, "rejected by dataprep": 1})]
    assert links == Path.cwd() / "files"
    assert sorted(path.resolve() for path in links.rglob("*") if path.is_file()) == sorted(
        path for path, _ in found.files
    )
    assert broken not in dict(found.files)


def test_nested_folders_are_read_as_the_shards_were_written(plan: Any, photos: Path) -> None:
    inner = photos / "class2" / "2024" / "may"
    inner.mkdir(parents=True)
    (photos / "class2" / "2.jpg").rename(inner / "two.JPEG")
    (photos / "class2" / "5.jpg").rename(inner / "no ending")
    links, found, told = listed(plan, photos)
    assert len(found.files) == 24
    assert {path.name: label for path, label in found.files if path.parent == inner} == {"two.JPEG": 2, "no ending": 2}
    assert {path.suffix for path in links.rglob("*.*")} == {".jpg"}
    assert len(list(links.glob("00002/*"))) == 8
    assert told == [SkippedFiles(photos, {"not JPEG, PNG or BMP": 1})]


def test_skipped_files_are_counted_by_reason(plan: Any, photos: Path) -> None:
    (photos / "loose.jpg").write_bytes(picture(0, 0))
    os.mkfifo(photos / "class0" / "pipe.jpg")
    (photos / "class0" / ".hidden.jpg").write_bytes(picture(0, 0))
    (photos / "class1" / "more").symlink_to(photos / "class0")
    (photos / "class1" / "web.jpg").write_bytes(b"RIFF....WEBP")
    found = listed(plan, photos)[1]
    assert found.skipped == {
        "in no class folder": 1,
        "unreadable, or not a regular file": 1,
        "hidden or system files": 1,
        "links to folders": 1,
        "not JPEG, PNG or BMP": 2,
    }
    assert len(found.files) == 24
    assert not found.is_plain


def test_skipped_files_are_counted_in_the_text() -> None:
    text = " ".join(bench_text(replace(FOUND, skipped={"not JPEG, PNG or BMP": 1200})).split())
    assert "2,200 files in /data/photos (skipped: 1,200 not JPEG, PNG or BMP); warm" in text
