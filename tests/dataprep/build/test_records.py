"""A new record kind needs a schema and an entry in RECORDS."""

import json
from pathlib import Path

import pytest

from dataprep.build.records import RECORDS, find_record_kind
from dataprep.build.records.sample import Record, RecordKind, Sample
from dataprep.errors import DataprepError
from dataprep.mindrecord.reader import ShardReader
from schemas import record
from schemas.dataset import load_dataset
from schemas.record import RecordSchema
from tests.dataprep.examples import shard


def encode_captioned(schema: RecordSchema, sample: Sample) -> Record:
    values = {"image": sample.picture.data, "key": sample.item.key, "caption": f"a {sample.item.key[:3]}"}
    return Record({schema.column(role): value for role, value in values.items()})


@pytest.fixture
def captioned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record kind `captioned`: an image, a sentence about it, and no label."""
    fields = [
        {"name": "image", "type": "bytes", "role": "image"},
        {"name": "caption", "type": "string", "role": "caption"},
        {"name": "key", "type": "string", "role": "key", "index": True},
    ]
    schema = tmp_path / "schemas" / "captioned.json"
    schema.parent.mkdir()
    schema.write_text(json.dumps({"name": "captioned", "kind": "captioned", "classes": "none", "fields": fields}))
    monkeypatch.setattr(record, "SCHEMAS", schema.parent)
    monkeypatch.setitem(RECORDS, "captioned", RecordKind(encode_captioned))


@pytest.mark.usefixtures("captioned")
@pytest.mark.parametrize("check", ["off", pytest.param("decode", marks=pytest.mark.slow)])
def test_a_new_record_kind_is_sharded(raw: Path, tmp_path: Path, check: str) -> None:
    shard(raw, tmp_path / "out", schema="captioned", val=0.0, num_shards=1, prove=check)
    dataset = load_dataset(tmp_path / "out")
    assert (dataset.schema.kind, dataset.splits["train"].rows) == ("captioned", 40)
    with ShardReader(tmp_path / "out" / "train.mindrecord0") as reader:
        rows = {row["key"]: row for row in reader}
    assert len(rows) == 40
    assert rows["cat/01.png"]["caption"] == "a cat"
    assert rows["cat/01.png"]["image"] == (raw / "cat" / "01.png").read_bytes()


@pytest.mark.usefixtures("captioned")
def test_a_record_kind_that_is_not_in_the_table_is_rejected_before_the_scan(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(RECORDS, "captioned")
    with pytest.raises(DataprepError, match="records of kind 'captioned'"):
        shard(raw, tmp_path / "out", schema="captioned")


@pytest.mark.parametrize("kind", RECORDS)
def test_every_record_kind_has_a_schema(kind: str) -> None:
    assert isinstance(find_record_kind(kind), RecordKind)
    assert kind in record.schema_names()
