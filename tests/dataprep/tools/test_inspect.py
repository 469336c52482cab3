import os
from pathlib import Path

import pytest
from mindspore.mindrecord import FileWriter

from dataprep.errors import DataprepError
from dataprep.tools.inspect import inspect, read_key, read_row, save_image
from schemas.errors import ContractError
from tests.dataprep.examples import Files, picture, shard

pytestmark = pytest.mark.slow


def test_a_dataset_is_described_by_split(sealed: Path) -> None:
    found = inspect(sealed, "val")
    assert (found.rows, found.splits, found.class_rows) == (4, {"train": 36, "val": 4}, {"cat": 2, "dog": 2})
    assert found.shards == {"val.mindrecord0": 4}
    with pytest.raises(DataprepError, match="has no split 'test'; it has train, val"):
        inspect(sealed, "test")


def test_rows_count_through_the_shards(sealed: Path) -> None:
    shards = inspect(sealed, "train").shards
    keys = [read_row(sealed, "train", number).values["key"] for number in range(36)]
    assert len(set(keys)) == 36
    assert read_row(sealed, "train", 0).class_name == keys[0].split("/")[0]
    assert read_row(sealed, "train", shards["train.mindrecord0"]).shard == "train.mindrecord1"
    with pytest.raises(DataprepError, match="row 36 does not exist: train has the rows 0 to 35"):
        read_row(sealed, "train", 36)


def test_a_key_is_found_in_any_split(sealed: Path, raw: Path, tmp_path: Path) -> None:
    for number in range(0, 40, 7):
        key = next(path.relative_to(raw) for path in raw.glob(f"*/{number:02d}.*")).as_posix()
        record = read_key(sealed, None, key)
        save_image(record, tmp_path / "image")
        assert (tmp_path / "image").read_bytes() == (raw / key).read_bytes()
    with pytest.raises(DataprepError, match=r"no record has the key 'cat/99\.png'"):
        read_key(sealed, None, "cat/99.png")


def test_a_set_of_FileWriter_is_read_by_file_and_by_folder(tmp_path: Path) -> None:
    writer = FileWriter(str(tmp_path / "theirs.mindrecord"), 2)
    writer.add_schema({"data": {"type": "bytes"}, "label": {"type": "int32"}}, "theirs")
    writer.add_index(["label"])
    writer.write_raw_data([{"data": bytes([n + 1]), "label": n} for n in range(9)])
    writer.commit()
    for path in (tmp_path, tmp_path / "theirs.mindrecord1"):
        found = inspect(path)
        assert (found.rows, found.schema.name, sorted(found.shards)) == (
            9,
            "theirs",
            ["theirs.mindrecord0", "theirs.mindrecord1"],
        )
        assert {read_row(path, None, n).values["label"] for n in range(9)} == set(range(9))
    with pytest.raises(DataprepError, match="no indexed key column; use --row"):
        read_key(tmp_path, None, "x")


@pytest.mark.parametrize(
    "name",
    ["a b.jpg", "it's.jpg", 'quo"te.jpg', "comma,.jpg", "tab\t.jpg", "line\nbreak.jpg", "x" * 251 + ".jpg",
     "\u732b.jpg", "caf\u00e9.jpg", "cafe\u0301.jpg", "A.JPG", "a.jpg", "-rf.jpg", "%41.jpg", "100%.jpg"],
)  # fmt: skip
def test_any_name_is_written_and_found_again(files: Files, tmp_path: Path, name: str) -> None:
    shard(files({f"c/{name}": picture(1), f"d/{name}": picture(2)}), tmp_path / "out", val=0.0)
    assert read_key(tmp_path / "out", None, f"c/{name}").blobs["image"] == picture(1)
    assert read_key(tmp_path / "out", None, f"d/{name}").blobs["image"] == picture(2)


def test_key_with_bytes_that_are_not_utf8_is_found_by_its_escaped_form(files: Files, tmp_path: Path) -> None:
    source = files({"c/1.jpg": picture(1)})
    (tmp_path / "raw" / "c" / "1.jpg").rename(os.fsdecode(os.fsencode(source / "c") + b"/\xff\xfe.jpg"))
    shard(source, tmp_path / "out", val=0.0)
    assert read_key(tmp_path / "out", None, "c/%FF%FE.jpg").blobs["image"] == picture(1)


def test_folder_without_a_dataset_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataprepError, match=r"has no dataset\.json and no MindRecord file"):
        inspect(tmp_path)


def test_unsealed_dataset_is_reported_as_unsealed(sealed: Path) -> None:
    (sealed / "dataset.json").unlink()
    with pytest.raises(ContractError, match="is not sealed"):
        inspect(sealed)
