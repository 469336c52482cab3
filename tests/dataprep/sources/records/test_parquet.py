"""Parquet files with image bytes."""

import json
from pathlib import Path
from typing import Any

import pytest

from dataprep.errors import DataprepError, DataRejected
from dataprep.items import UNPACKED
from dataprep.mindrecord.reader import ShardReader
from schemas.dataset import load_dataset
from tests.dataprep.examples import digests, picture, shard

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def hub_rows(count: int, start: int = 0) -> dict[str, list[Any]]:
    """Rows as the Hugging Face library writes them."""
    numbers = range(start, start + count)
    return {
        "image": [{"bytes": picture(number), "path": f"{number}.jpg"} for number in numbers],
        "label": [number % 2 for number in numbers],
    }


def write(path: Path, columns: dict[str, list[Any]], names: list[str] | None = None, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pyarrow.table(columns)
    if names:
        features = {"label": {"names": names, "_type": "ClassLabel"}}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    parquet.write_table(table, path, **options)
    return path


def rows(folder: Path, split: str = "train") -> dict[str, tuple[int, bytes]]:
    found = {}
    for planned in load_dataset(folder).splits[split].shards:
        with ShardReader(folder / planned.name) as reader:
            found |= {row["key"]: (row["label"], row["image"]) for row in reader}
    return found


def test_files_of_the_hub_are_sharded_with_their_class_names_and_splits(tmp_path: Path) -> None:
    write(tmp_path / "in" / "data" / "train-00000-of-00002.parquet", hub_rows(30), ["zebra", "ape"], row_group_size=7)
    write(tmp_path / "in" / "data" / "train-00001-of-00002.parquet", hub_rows(30, 30), ["zebra", "ape"])
    write(tmp_path / "in" / "data" / "validation-00000-of-00001.parquet", hub_rows(10, 60), ["zebra", "ape"])
    shard(tmp_path / "in", tmp_path / "out")
    dataset = load_dataset(tmp_path / "out")
    assert dataset.classes == ("zebra", "ape")
    assert {split: one.rows for split, one in dataset.splits.items()} == {"train": 60, "val": 10}
    assert rows(tmp_path / "out")["7.jpg"] == (1, picture(7))
    assert not (tmp_path / "out" / ".work" / UNPACKED).exists()


def test_the_same_images_give_the_same_shards_as_from_folders(tmp_path: Path) -> None:
    names = [f"{'ab'[n % 2]}/{n}.jpg" for n in range(20)]
    for number, name in enumerate(names):
        path = tmp_path / "folders" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    columns = {"img": [picture(n) for n in range(20)], "class": [n[0] for n in names], "file_name": names}
    shard(write(tmp_path / "t.parquet", columns), tmp_path / "table")
    shard(tmp_path / "folders", tmp_path / "files")
    shards = [{n: d for n, d in digests(tmp_path / one).items() if ".mindrecord" in n} for one in ("table", "files")]
    assert shards[0] == shards[1]


def test_a_killed_job_goes_on_without_unpacking_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "in" / "train.parquet", hub_rows(40))
    shard(source.parent, tmp_path / "whole", val=0.0, num_shards=4)

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dataprep.pipeline.seal", stop)
        with pytest.raises(KeyboardInterrupt):
            shard(source.parent, tmp_path / "killed", val=0.0, num_shards=4)
    assert (tmp_path / "killed" / ".work" / UNPACKED).is_dir()
    monkeypatch.setattr("pyarrow.parquet.ParquetFile.iter_batches", stop)
    shard(source.parent, tmp_path / "killed", val=0.0, num_shards=4)
    assert digests(tmp_path / "killed") == digests(tmp_path / "whole")


def test_empty_values_are_rejects_with_a_reason(tmp_path: Path) -> None:
    columns = hub_rows(300)
    columns["image"][5] = None
    columns["image"][6] = {"bytes": None, "path": "6.jpg"}
    columns["label"][7] = None
    shard(write(tmp_path / "t.parquet", columns), tmp_path / "out")
    assert load_dataset(tmp_path / "out").rejected == {"missing_file": 2, "no_class": 1}


def test_columns_of_the_file_become_columns_of_the_records(tmp_path: Path) -> None:
    source = write(tmp_path / "t.parquet", {**hub_rows(20), "age": list(range(20))})
    shard(source, tmp_path / "out", field=("age:float32",), val=0.0)
    with ShardReader(tmp_path / "out" / "train.mindrecord0") as reader:
        assert {row["key"]: row["age"] for row in reader} == {f"{n}.jpg": float(n) for n in range(20)}


@pytest.mark.parametrize("keep", [100, -9])
def test_a_cut_file_is_rejected_and_nothing_is_sealed(tmp_path: Path, keep: int) -> None:
    source = write(tmp_path / "t.parquet", hub_rows(20))
    source.write_bytes(source.read_bytes()[:keep])
    with pytest.raises(DataRejected, match="cannot be read as Parquet"):
        shard(source, tmp_path / "out")
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_a_missing_column_lists_the_columns(tmp_path: Path) -> None:
    source = write(tmp_path / "t.parquet", {"image": hub_rows(4)["image"], "kind": [1, 2, 1, 2]})
    with pytest.raises(DataprepError, match=r"--label-column: image, kind"):
        shard(source, tmp_path / "out")
    with pytest.raises(DataprepError, match="no column 'nope'"):
        shard(source, tmp_path / "out", label_column="nope")
