"""WebDataset samples: the files of a sample have one name and different endings."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from dataprep.items import Ignored, Item, Notice, Reject, ScanEntry
from dataprep.mindrecord.reader import ShardReader
from dataprep.options import SourceOptions
from dataprep.sources.archives.webdataset import scan
from schemas.dataset import load_dataset
from schemas.record import Field
from tests.dataprep.conftest import picture, shard


def tar(path: Path, files: list[tuple[str, bytes]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def items(entries: list[ScanEntry]) -> dict[str, Item]:
    return {entry.key: entry for entry in entries if isinstance(entry, Item)}


def test_shards_are_sharded_with_their_labels_and_splits(tmp_path: Path) -> None:
    for name, numbers in (("train-000", range(12)), ("train-001", range(12, 20)), ("val-000", range(20, 26))):
        images = [(f"{number:04d}.jpg", picture(number)) for number in numbers]
        labels = [(f"{number:04d}.cls", str(number % 3).encode()) for number in numbers]
        tar(tmp_path / "in" / f"{name}.tar", images + labels)
    shard(tmp_path / "in", tmp_path / "out")
    dataset = load_dataset(tmp_path / "out")
    assert {split: one.class_rows for split, one in dataset.splits.items()} == {"train": (7, 7, 6), "val": (2, 2, 2)}
    with ShardReader(tmp_path / "out" / "train.mindrecord0") as reader:
        assert all(row["image"] == picture(int(row["key"][:4])) for row in reader)


def test_members_out_of_order_or_missing_are_joined_or_counted(tmp_path: Path) -> None:
    files = [
        ("b.cls", b"1"), ("a.jpg", b"x"), ("b.jpg", b"x"), ("a.cls", b"0"), ("c.jpg", b"x"), ("d.cls", b"1"),
        ("e.jpg", b"x"), ("e.json", b"{"), ("f.bin", b"?"), ("a.jpg", b"again"),
        ("dir.v2/g.jpg", b"x"), ("dir.v2/g.cls", b"2"),
    ]  # fmt: skip
    entries = list(scan(tar(tmp_path / "t.tar", files), SourceOptions()))
    assert {key: item.class_name for key, item in items(entries).items()} == {
        "a.jpg": "0",
        "b.jpg": "1",
        "dir.v2/g.jpg": "2",
    }
    rejects = {(entry.key, entry.reason) for entry in entries if isinstance(entry, Reject)}
    assert rejects == {("a.jpg", "duplicate_key"), ("c.jpg", "no_class"), ("d.cls", "no_image"), ("e.jpg", "corrupt")}
    assert [entry.key for entry in entries if isinstance(entry, Ignored)] == ["f.bin"]
    assert any("1 corrupt" in entry.text for entry in entries if isinstance(entry, Notice))


@pytest.mark.parametrize(
    ("label", "options", "expected"),
    [
        (("cls", b" cat\n"), {}, ("cat", None)),
        (("json", b'{"label": 7}'), {}, ("7", None)),
        (("json", b'{"kind": "dog"}'), {"label_column": "kind"}, ("dog", None)),
        (("json", b'{"tags": ["x", "y"]}'), {"needs": "classes"}, ("", {"classes": ["x", "y"]})),
        (("txt", b"eine Katze"), {"needs": "captions"}, ("", {"captions": ["eine Katze"]})),
        (("json", b'{"caption": "a cat"}'), {"needs": "captions"}, ("", {"captions": ["a cat"]})),
        (("json", b'{"age": 3}'), {"needs": None, "fields": (Field("age", "int32"),)}, ("", {"fields": {"age": 3}})),
    ],
)
def test_labels_come_from_the_file_that_has_them(
    tmp_path: Path, label: tuple[str, bytes], options: dict[str, Any], expected: tuple[str, Any]
) -> None:
    files = [("1.jpg", b"x"), (f"1.{label[0]}", label[1])]
    [item] = items(list(scan(tar(tmp_path / "t.tar", files), SourceOptions(**options)))).values()
    assert (item.class_name, item.annotation) == expected


def test_the_webdataset_library_reads_the_same(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset", reason="pip install webdataset compares with it")
    files = [
        (f"x/{n}.{kind}", picture(n) if kind == "jpg" else json.dumps({"label": n % 4}).encode())
        for n in range(30)
        for kind in ("json", "jpg")
    ]
    path = tar(tmp_path / "t.tar", files)
    theirs = {
        f"{one['__key__']}.jpg": (one["jpg"], json.loads(one["json"])["label"])
        for one in webdataset.WebDataset(str(path), shardshuffle=False)
    }
    shard(path, tmp_path / "out", val=0.0)
    with ShardReader(tmp_path / "out" / "train.mindrecord0") as reader:
        assert {row["key"]: (row["image"], row["label"]) for row in reader} == theirs
