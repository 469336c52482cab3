"""MindRecord files of this program and of others are resharded."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from dataprep.errors import DataprepError, DataRejected
from dataprep.mindrecord.format import Geometry
from dataprep.mindrecord.reader import ShardReader
from dataprep.mindrecord.writer import ShardWriter
from dataprep.options import SourceOptions
from dataprep.sources.records.mindrecord import scan
from schemas.dataset import load_dataset
from schemas.record import Field, RecordSchema
from tests.dataprep.examples import picture, shard

IMAGENET = (Field("data", "bytes"), Field("label", "int64", index=True), Field("file_name", "string"))


def written(folder: Path, fields: tuple[Field, ...], rows: list[dict[str, Any]], name: str = "train") -> Path:
    """Write a set of two files as another program would."""
    folder.mkdir(exist_ok=True)
    names = [f"{name}.mindrecord{number}" for number in range(2)]
    for number in range(2):
        with ShardWriter(folder, names, number, RecordSchema("s", "k", fields), Geometry(16384, 32768)) as writer:
            for row in rows[number::2]:
                writer.write(row)
            writer.finish()
    return folder


def rows(count: int) -> list[dict[str, Any]]:
    return [{"data": picture(n), "label": n % 3, "file_name": f"{n}.jpg"} for n in range(count)]


def read(folder: Path, split: str) -> dict[str, tuple[int, bytes]]:
    found = {}
    for planned in load_dataset(folder).splits[split].shards:
        with ShardReader(folder / planned.name) as reader:
            found |= {row["key"]: (row["label"], row["image"]) for row in reader}
    return found


def test_a_foreign_set_is_resharded_with_its_labels(tmp_path: Path) -> None:
    made = rows(40)
    written(tmp_path / "in", IMAGENET, made)
    written(tmp_path / "in", IMAGENET, made[:8], "val")
    for row in made:
        row["file_name"] = f"x/{row['file_name']}"
    shard(written(tmp_path / "in", IMAGENET, made), tmp_path / "out")
    assert read(tmp_path / "out", "train") == {row["file_name"]: (row["label"], row["data"]) for row in made}
    assert len(read(tmp_path / "out", "val")) == 8


def test_a_label_keeps_its_number_if_a_smaller_one_is_not_used(tmp_path: Path) -> None:
    made = [row | {"label": 2 * row["label"]} for row in rows(30)]
    shard(written(tmp_path / "in", IMAGENET, made), tmp_path / "out")
    assert load_dataset(tmp_path / "out").classes == ("0", "1", "2", "3", "4")


def test_a_sealed_set_keeps_classes_splits_and_bytes(raw: Path, sealed: Path, tmp_path: Path) -> None:
    shard(sealed, tmp_path / "again", seed=7, num_shards=2)
    before, after = load_dataset(sealed), load_dataset(tmp_path / "again")
    assert after.classes == before.classes
    for split in ("train", "val"):
        assert read(tmp_path / "again", split) == read(sealed, split)


def test_columns_of_the_set_become_columns_of_the_records(tmp_path: Path) -> None:
    made = [row | {"width": n} for n, row in enumerate(rows(20))]
    folder = written(tmp_path / "in", (*IMAGENET, Field("width", "int32")), made)
    shard(folder, tmp_path / "out", field=("width:int32",), val=0.0)
    with ShardReader(tmp_path / "out" / "train.mindrecord0") as reader:
        assert {row["key"]: row["width"] for row in reader} == {row["file_name"]: row["width"] for row in made}


def test_two_columns_of_images_need_a_choice(tmp_path: Path) -> None:
    fields = (*IMAGENET, Field("mask", "bytes"))
    folder = written(tmp_path / "in", fields, [row | {"mask": picture(9)} for row in rows(4)])
    with pytest.raises(DataprepError, match=r"--image-field: .*data.*mask"):
        list(scan(folder, SourceOptions()))
    assert list(scan(folder, SourceOptions(image_field="data")))
    with pytest.raises(DataprepError, match="not a column of bytes"):
        list(scan(folder, SourceOptions(image_field="label")))


def test_a_missing_label_column_is_named(tmp_path: Path) -> None:
    fields = (Field("data", "bytes"), Field("kind", "int32"))
    folder = written(tmp_path / "in", fields, [{"data": picture(n), "kind": n % 2} for n in range(8)])
    with pytest.raises(DataprepError, match="--label-column, one of data, kind"):
        list(scan(folder, SourceOptions()))
    shard(folder, tmp_path / "out", label_column="kind")
    assert load_dataset(tmp_path / "out").written == 8


def test_rows_of_one_key_are_rejected_but_for_the_first(tmp_path: Path) -> None:
    made = [row | {"file_name": "same.jpg"} if n in (3, 5) else row for n, row in enumerate(rows(200))]
    shard(written(tmp_path / "in", IMAGENET, made), tmp_path / "out")
    assert load_dataset(tmp_path / "out").rejected == {"duplicate_key": 1}


@pytest.mark.parametrize("damage", ["missing", "cut", "index only"])
def test_a_damaged_set_is_rejected_and_nothing_is_sealed(tmp_path: Path, damage: str) -> None:
    folder = written(tmp_path / "in", IMAGENET, rows(40))
    second = folder / "train.mindrecord1"
    if damage == "missing":
        second.unlink()
    elif damage == "cut":
        second.write_bytes(second.read_bytes()[:20_000])
    else:
        shutil.copy(folder / "train.mindrecord1.db", second)
    with pytest.raises(DataRejected, match="nothing is sealed"):
        shard(folder, tmp_path / "out")
    assert not (tmp_path / "out" / "dataset.json").exists()
