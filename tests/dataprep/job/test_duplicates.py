import json
from pathlib import Path
from typing import Any

import pytest

from dataprep.errors import DataRejected
from dataprep.options import Budget
from tests.dataprep.examples import Files, encoded, picture, shard


def tagged(data: bytes, comment: bytes) -> bytes:
    """The same JPEG with a comment in it: other bytes, the same pixels."""
    return data[:2] + b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment + data[2:]


@pytest.fixture
def source(files: Files) -> Path:
    from PIL import Image

    drawn = Image.new("RGB", (9, 7), (1, 2, 3))
    return files(
        {
            "train/a/1.jpg": picture(1),
            "train/a/same bytes.jpg": picture(1),
            "train/a/2.jpg": picture(2),
            "train/b/other class.jpg": picture(2),
            "train/a/3.png": encoded(drawn, "PNG"),
            "train/b/4.jpg": picture(4),
            "val/a/3.bmp": encoded(drawn, "BMP"),
            "val/b/4.jpg": tagged(picture(4), b"hello"),
            "val/b/5.jpg": picture(5),
        }
    )


def listed(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "duplicates.jsonl").read_text().splitlines()]


def test_equal_files_and_equal_pixels_are_listed_with_leaks_and_conflicts(source: Path, tmp_path: Path) -> None:
    summary = shard(source, tmp_path / "out")
    assert summary.duplicates == {"groups": 4, "leaks": 2, "conflicts": 1}
    assert [(d["kind"], d["keys"], d["leak"], d["conflict"]) for d in listed(tmp_path / "out")] == [
        ("bytes", ["train/a/1.jpg", "train/a/same bytes.jpg"], False, False),
        ("bytes", ["train/a/2.jpg", "train/b/other class.jpg"], False, True),
        ("pixels", ["train/a/3.png", "val/a/3.bmp"], True, False),
        ("pixels", ["train/b/4.jpg", "val/b/4.jpg"], True, False),
    ]


def test_drop_removes_the_train_copies(source: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"max_rejects": Budget(2, False), "max_class_loss": Budget(1, True)}
    summary = shard(source, tmp_path / "out", duplicates="drop", **options)
    assert summary.duplicates == {"groups": 2, "leaks": 0, "conflicts": 1}
    assert summary.rejected == {"duplicate": 2}
    rejects = [json.loads(line) for line in (tmp_path / "out" / "rejects.jsonl").read_text().splitlines()]
    assert {reject["key"] for reject in rejects} == {"train/a/3.png", "train/b/4.jpg"}
    assert "as val/a/3.bmp in val or test" in rejects[0]["detail"]


def test_fail_seals_nothing_if_there_is_a_leak(source: Path, tmp_path: Path) -> None:
    with pytest.raises(DataRejected, match=r"2 images of val or test are also in train, the first as 'train/a/3\.png'"):
        shard(source, tmp_path / "out", duplicates="fail")
    assert not (tmp_path / "out" / "dataset.json").exists()
