"""Our MindRecord bytes against MindSpore's own writer and reader, over random schemas, rows and sizes."""

import os

os.environ.setdefault("GLOG_v", "3")

import json
import math
import sqlite3
import struct
from pathlib import Path
from typing import Any

import mindspore.dataset as ds
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mindspore.dataset import Shuffle
from mindspore.mindrecord import FileWriter

from dataprep.mindrecord.format import BLOB, Geometry
from dataprep.mindrecord.reader import ShardReader
from dataprep.mindrecord.writer import ShardWriter
from schemas.layout import shard_name
from schemas.record import Field, RecordSchema

pytestmark = pytest.mark.slow

CHECKS = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
INTS = {"int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1)}
DTYPES = {"int32": np.int32, "int64": np.int64, "float32": np.float32, "float64": np.float64}


def finite(width: int) -> st.SearchStrategy[float]:
    return st.floats(allow_nan=False, allow_infinity=False, width=width)


def scalar(kind: str) -> st.SearchStrategy[Any]:
    if kind in INTS:
        return st.integers(*INTS[kind]) | st.integers(-130, 300)
    return TEXT if kind == "string" else finite(32 if kind == "float32" else 64)


def value(field: Field) -> st.SearchStrategy[Any]:
    if field.type == "bytes":
        return st.binary(min_size=1, max_size=200) | st.integers(1, 20_000).map(lambda n: b"\xff\xd8" * n)
    if field.shape is None:
        return scalar(field.type)
    sizes = [3 if size == -1 else size for size in field.shape]
    items = st.lists(scalar(field.type), min_size=math.prod(sizes), max_size=math.prod(sizes))
    return items.map(lambda values: np.array(values, dtype=DTYPES[field.type]).reshape(sizes))


@st.composite
def schemas(draw: st.DrawFn) -> RecordSchema:
    fields = []
    for number in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["int32", "int64", "float32", "float64", "string", "bytes", "bytes"]))
        shape = draw(st.sampled_from([None, None, (-1,), (2,), (2, -1)])) if kind in DTYPES else None
        fields.append(Field(f"{draw(st.sampled_from('abcz'))}{number}", kind, shape))
    scalars = [field for field in fields if not field.is_blob]
    # FileWriter indexes every scalar where none is named, so the comparison always names some.
    chosen = draw(st.sets(st.sampled_from(scalars), min_size=1)) if scalars else set()
    return RecordSchema("drawn", "any", tuple(Field(f.name, f.type, f.shape, index=f in chosen) for f in fields))


@st.composite
def sets(draw: st.DrawFn) -> tuple[RecordSchema, list[dict[str, Any]], Geometry]:
    schema = draw(schemas())
    row = st.fixed_dictionaries({field.name: value(field) for field in schema.fields})
    rows = draw(st.lists(row, min_size=1, max_size=24))
    header = draw(st.sampled_from([1 << 14, 1 << 16, 20_000]))
    return schema, rows, Geometry(header, draw(st.sampled_from([1 << 17, 1 << 18, 150_004])))


def write(folder: Path, names: list[str], schema: RecordSchema, rows: list[dict[str, Any]], geometry: Geometry) -> None:
    for shard in range(len(names)):
        with ShardWriter(folder, names, shard, schema, geometry) as writer:
            for row in rows[shard :: len(names)]:
                writer.write(row)
            writer.finish()


def write_theirs(path: Path, schema: RecordSchema, rows: list[dict[str, Any]], geometry: Geometry, calls: Any) -> None:
    writer = FileWriter(str(path), 1)
    writer.set_header_size(geometry.header_size)
    writer.set_page_size(geometry.page_size)
    columns = {f.name: {"type": f.type} | ({"shape": list(f.shape)} if f.shape else {}) for f in schema.fields}
    writer.add_schema(columns, schema.name)
    if schema.index_fields:
        writer.add_index([field.name for field in schema.index_fields])
    for start, end in calls:
        writer.write_raw_data([dict(row) for row in rows[start:end]])
    writer.commit()


def header(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    loaded: dict[str, Any] = json.loads(data[8 : 8 + size])
    return loaded


def index_rows(path: Path) -> list[Any]:
    with sqlite3.connect(f"{path}.db") as db:
        return db.execute("SELECT * FROM INDEXES ORDER BY ROW_ID").fetchall()


def plain(value: Any) -> Any:
    return value.ravel().tolist() if isinstance(value, np.ndarray) else value


@CHECKS
@given(drawn=sets())
def test_one_shard_has_the_bytes_and_index_rows_of_FileWriter(drawn: Any, tmp_path_factory: Any) -> None:
    schema, rows, geometry = drawn
    ours, theirs = (tmp_path_factory.mktemp("set") / "s.mindrecord" for _ in range(2))
    write(ours.parent, [ours.name], schema, rows, geometry)
    groups = [(p["start_row_id"], p["end_row_id"]) for p in header(ours)["page"] if p["page_type"] == BLOB]
    write_theirs(theirs, schema, rows, geometry, groups)
    assert header(ours) == header(theirs)
    assert ours.read_bytes() == theirs.read_bytes()
    assert index_rows(ours) == index_rows(theirs)


@CHECKS
@given(drawn=sets())
def test_our_reader_reads_what_FileWriter_writes_in_one_call(drawn: Any, tmp_path_factory: Any) -> None:
    schema, rows, geometry = drawn
    path = tmp_path_factory.mktemp("set") / "s.mindrecord"
    write_theirs(path, schema, rows, geometry, [(0, len(rows))])
    with ShardReader(path) as reader:
        assert list(reader) == [{name: plain(value) for name, value in row.items()} for row in rows]
        assert reader.index_problem() is None


def read_by_MindDataset(files: str | list[str], schema: RecordSchema, shuffle: Any) -> list[tuple[Any, ...]]:
    shards = {"num_shards": 1, "shard_id": 0} if isinstance(files, list) else {}
    data = ds.MindDataset(files, shuffle=shuffle, num_parallel_workers=1, **shards)
    found = []
    for row in data.create_dict_iterator(num_epochs=1, output_numpy=True):
        found.append(tuple(flat(row[field.name], field) for field in schema.fields))
    return found


def flat(value: np.ndarray, field: Field) -> Any:
    if field.type == "bytes":
        return value.tobytes()
    return value.item() if field.shape is None else tuple(value.ravel().tolist())


def as_read(row: dict[str, Any], schema: RecordSchema) -> tuple[Any, ...]:
    values = (plain(row[field.name]) for field in schema.fields)
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


@settings(CHECKS, max_examples=12)
@given(drawn=sets(), count=st.integers(1, 4))
def test_MindDataset_reads_the_same_values_by_list_and_by_first_file(
    drawn: Any, count: int, tmp_path_factory: Any
) -> None:
    schema, rows, geometry = drawn
    # Strings that end in NUL, and -0.0, are beyond what a NumPy comparison tells apart; neither is drawn here.
    folder = tmp_path_factory.mktemp("set")
    names = [shard_name("train", number, count) for number in range(count)]
    write(folder, names, schema, rows, geometry)
    in_order = [as_read(row, schema) for shard in range(count) for row in rows[shard::count]]
    by_list = [str(folder / name) for name in names]
    for files in (by_list, by_list[0]):
        assert read_by_MindDataset(files, schema, False) == in_order
        assert sorted(read_by_MindDataset(files, schema, Shuffle.GLOBAL), key=repr) == sorted(in_order, key=repr)


def test_an_empty_shard_in_a_set_is_read(tmp_path: Path) -> None:
    schema = RecordSchema("s", "any", (Field("image", "bytes"), Field("label", "int32", index=True)))
    rows = [{"image": b"x", "label": 3}]
    names = ["train.mindrecord0", "train.mindrecord1", "train.mindrecord2"]
    write(tmp_path, names, schema, rows, Geometry(1 << 14, 1 << 15))
    files = [str(tmp_path / name) for name in names]
    assert read_by_MindDataset(files, schema, False) == [(b"x", 3)]
    assert read_by_MindDataset(files[0], schema, False) == [(b"x", 3)]


@pytest.mark.parametrize("size", [1 << 15, 1 << 16])
def test_raw_pages_end_as_in_FileWriter(tmp_path: Path, size: int) -> None:
    schema = RecordSchema("s", "any", (Field("image", "bytes"), Field("key", "string", index=True)))
    rows = [{"image": bytes([n]) * (1 + n * 37 % 9000), "key": "k" * (n * 53 % 3000)} for n in range(250)]
    (tmp_path / "theirs").mkdir()
    ours, theirs = tmp_path / "s.mindrecord", tmp_path / "theirs" / "s.mindrecord"
    write(tmp_path, [ours.name], schema, rows, Geometry(1 << 16, size))
    groups = [(p["start_row_id"], p["end_row_id"]) for p in header(ours)["page"] if p["page_type"] == BLOB]
    write_theirs(theirs, schema, rows, Geometry(1 << 16, size), groups)
    assert sum(page["page_type"] != BLOB for page in header(ours)["page"]) > 1
    assert ours.read_bytes() == theirs.read_bytes()
