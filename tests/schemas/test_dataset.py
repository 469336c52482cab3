import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.dataset import Dataset, PixelStats, Shard, Split, file_problems, load_dataset
from schemas.errors import ContractError
from schemas.layout import shard_name
from schemas.record import load_schema

DIGEST = hashlib.sha256(b"").hexdigest()
SHARD = Shard("train.mindrecord0", 3, 10, DIGEST, 0, DIGEST)
DATASET = Dataset(
    schema=load_schema("classification"),
    classes=("cat", "dog"),
    splits={"train": Split((1, 2), (SHARD,))},
    found=6,
    rejected={"empty": 1},
    ignored={"hidden": 2},
    changed={},
    policy={"quality": 95},
    plan={"seed": 0},
    pixels=PixelStats((1.0, 2.0, 3.0), (4.0, 5.0, 6.0), 3),
)


def test_dataset_is_equal_after_a_json_round_trip() -> None:
    data = DATASET.to_json()
    assert Dataset.from_json(data) == DATASET
    assert Dataset.from_json(data).to_json() == data


def test_the_digest_is_the_sha256_of_the_file() -> None:
    assert DATASET.digest == hashlib.sha256(DATASET.to_json()).hexdigest()


@pytest.mark.parametrize(("old", "new"), [('"cat"', '"cow"'), ('"found": 6', '"found": 7'), ('"rows": 3', '"rows": 4')])
def test_an_edit_breaks_the_seal(old: str, new: str) -> None:
    edited = DATASET.to_json().decode().replace(old, new, 1)
    with pytest.raises(ContractError, match="was edited after it was sealed"):
        Dataset.from_json(edited.encode())


def resealed(**changes: Any) -> bytes:
    """A changed manifest with a valid seal."""
    body = json.loads(DATASET.to_json())
    del body["seal"]
    body |= changes
    seal = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return json.dumps(body | {"seal": seal}).encode()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"found": 7}, "'found' differs from written"),
        ({"classes": ["cat"]}, "split 'train' does not fit the classes"),
        ({"classes": "cat"}, "'classes' is 'cat', expected list"),
        ({"splits": {"train": 3}}, "'train' is 3, expected dict"),
        ({"version": 99}, "is not a mindrecord-dataset of version 1"),
        ({"pixels": {"mean": [1.0], "std": [1.0], "images": 1}}, "must have three values"),
    ],
)
def test_an_inconsistent_manifest_is_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ContractError, match=message):
        Dataset.from_json(resealed(**changes))


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "", "..", "a/b"])
def test_a_shard_name_cannot_leave_the_folder(name: str) -> None:
    with pytest.raises(ContractError, match="is outside the dataset folder"):
        replace(SHARD, name=name)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_data_that_is_not_json_is_rejected(data: bytes) -> None:
    with pytest.raises(ContractError, match=r"dataset\.json"):
        Dataset.from_json(data)


def test_an_unsealed_folder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="create a dataset with 'dataprep shard"):
        load_dataset(tmp_path)
    (tmp_path / ".work").mkdir()
    with pytest.raises(ContractError, match="has not finished; run the same 'dataprep shard' command"):
        load_dataset(tmp_path)
    with pytest.raises(ContractError, match="is not a folder"):
        load_dataset(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("log", "rejects", "sentence"),
    [
        (['{"event": "start"}', '{"event": "refused", "problem": "3 of 9"}'], "x", "its job was rejected: 3 of 9. The"),
        (['{"event": "refused", "problem": "3 of 9"}'], "", "its job was rejected: 3 of 9"),
        (['{"event": "refused", "problem": "3 of 9"}', '{"event": "start"}'], "x", "has not finished"),
        (['{"event": "refused"}'], "x", "has not finished"),
        (['{"event": "ref'], "x", "has not finished"),
        ([], "x", "has not finished"),
    ],
)
def test_an_unsealed_folder_says_that_its_job_was_rejected(
    log: list[str], rejects: str, sentence: str, tmp_path: Path
) -> None:
    work = tmp_path / ".work"
    work.mkdir()
    (work / "run.jsonl").write_text("\n".join(log))
    (work / "rejects.jsonl").write_text(rejects)
    with pytest.raises(ContractError) as refused:
        load_dataset(tmp_path)
    assert sentence in str(refused.value)
    assert ("--retry-rejects" in str(refused.value)) == sentence.endswith(". The")


def test_file_problems_names_each_file(tmp_path: Path) -> None:
    assert file_problems(tmp_path, [SHARD]) == ["train.mindrecord0 is missing", "train.mindrecord0.db is missing"]
    (tmp_path / "train.mindrecord0").write_bytes(b"x" * 9)
    (tmp_path / "train.mindrecord0.db").write_bytes(b"")
    assert file_problems(tmp_path, [SHARD]) == ["train.mindrecord0 has 9 bytes, expected 10"]
    (tmp_path / "train.mindrecord0").write_bytes(b"x" * 10)
    assert file_problems(tmp_path, [SHARD]) == []
    changed = replace(SHARD, index_bytes=1)
    (tmp_path / "train.mindrecord0.db").write_bytes(b"y")
    assert "does not match its sealed sha256" in file_problems(tmp_path, [changed])[0]


def test_shards_are_named_as_FileWriter_names_them() -> None:
    assert [shard_name("train", i, 3) for i in range(3)] == [f"train.mindrecord{i}" for i in range(3)]
    assert shard_name("val", 7, 11) == "val.mindrecord07"
    assert shard_name("val", 7, 10) == "val.mindrecord7"
