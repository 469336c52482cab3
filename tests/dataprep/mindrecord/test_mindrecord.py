from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.mindrecord.format import Geometry, HeaderFull, RowError, RowTooLarge
from dataprep.mindrecord.reader import ShardReader
from dataprep.mindrecord.rows import RowCodec, pack_ints, unpack_ints
from dataprep.mindrecord.writer import ShardWriter
from schemas.errors import ContractError
from schemas.record import Field, RecordSchema

SCHEMA = RecordSchema(
    "s",
    "any",
    (
        Field("image", "bytes"),
        Field("label", "int32", index=True),
        Field("score", "float64", index=True),
        Field("name", "string"),
        Field("box", "float32", (-1, 4)),
    ),
)
ROW: dict[str, Any] = {
    "image": b"x",
    "label": 1,
    "score": 0.5,
    "name": "a",
    "box": np.zeros((2, 4), np.float32),
}
SMALL = Geometry(1 << 14, 1 << 15)


def write(folder: Path, rows: list[dict[str, Any]], geometry: Geometry = SMALL, schema: RecordSchema = SCHEMA) -> Path:
    with ShardWriter(folder, ["s.mindrecord"], 0, schema, geometry) as writer:
        for row in rows:
            writer.write(row)
        writer.finish()
    return folder / "s.mindrecord"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("label", np.int64(1), "is int64, expected int"),
        ("label", True, "is bool, expected int"),
        ("label", None, "is NoneType, expected int"),
        ("label", 1 << 31, "is outside int32"),
        ("score", float("nan"), "an indexed field must be finite"),
        ("score", float("inf"), "an indexed field must be finite"),
        ("score", 1, "is int, expected float"),
        ("name", b"a", "is bytes, expected str"),
        ("name", "\udcff", "is not valid Unicode"),
        ("image", b"", "is empty"),
        ("image", bytearray(b"x"), "is bytearray, expected bytes"),
        ("box", np.zeros((2, 3), np.float32), r"has shape \(2, 3\), expected \[-1, 4\]"),
        ("box", np.zeros((2, 4), np.float64), "has items of type 'd', expected float32"),
        ("box", [1.0], "is list, expected an array"),
    ],
)
def test_a_wrong_value_raises_with_field_and_value(field: str, value: Any, message: str) -> None:
    with pytest.raises(RowError, match=message) as raised:
        RowCodec(SCHEMA).encode(ROW | {field: value})
    assert raised.value.field == field
    assert raised.value.value is value


def test_missing_and_extra_fields_raise() -> None:
    with pytest.raises(RowError, match="'name' = None: is missing"):
        RowCodec(SCHEMA).encode({key: value for key, value in ROW.items() if key != "name"})
    with pytest.raises(RowError, match="'more' = 1: is not in the schema"):
        RowCodec(SCHEMA).encode(ROW | {"more": 1})


def test_a_row_too_large_for_a_page_says_what_it_needs(tmp_path: Path) -> None:
    schema = RecordSchema("s", "any", (Field("image", "bytes"),))
    fits = SMALL.page_size - 8
    assert write(tmp_path, [{"image": b"x" * fits}], schema=schema).is_file()
    with pytest.raises(RowTooLarge, match=r"field 'image' .* needs 32769 bytes, but a page has 32768") as raised:
        write(tmp_path, [{"image": b"x" * (fits + 1)}], schema=schema)
    assert raised.value.needed == 32769


def test_full_header_raises_an_error(tmp_path: Path) -> None:
    schema = RecordSchema("s", "any", (Field("image", "bytes"),))
    with pytest.raises(HeaderFull):
        write(tmp_path, [{"image": b"x" * 20_000}] * 100, schema=schema)


def test_unfinished_shard_is_rejected(tmp_path: Path) -> None:
    with ShardWriter(tmp_path, ["s.mindrecord"], 0, SCHEMA, SMALL) as writer:
        writer.write(ROW)
    with pytest.raises(ContractError, match="has no MindRecord header"):
        ShardReader(tmp_path / "s.mindrecord")


def test_rows_are_read_back_in_order_and_by_number(tmp_path: Path) -> None:
    rows = [ROW | {"label": n, "image": bytes([n % 256]) * 5000} for n in range(30)]
    with ShardReader(write(tmp_path, rows)) as reader:
        assert reader.rows == 30
        assert [row["label"] for row in reader] == list(range(30))
        assert reader.row(17)["image"] == bytes([17]) * 5000
        with pytest.raises(IndexError):
            reader.row(30)


def test_shard_without_rows_is_complete(tmp_path: Path) -> None:
    with ShardReader(write(tmp_path, [])) as reader:
        assert (reader.rows, list(reader), reader.index_problem()) == (0, [], None)


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    paths = [write(tmp_path / name, [ROW] * 9) for name in ("a", "b")]
    for suffix in ("", ".db"):
        assert len({Path(f"{path}{suffix}").read_bytes() for path in paths}) == 1


def test_small_sets_are_small(tmp_path: Path) -> None:
    assert write(tmp_path, [ROW]).stat().st_size < 50_000


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=20))
def test_packed_integers_are_read_back(values: list[int]) -> None:
    assert unpack_ints(pack_ints(values)) == values


@given(st.binary(max_size=64))
def test_damaged_rows_raise_ValueError_only(data: bytes) -> None:
    for codec in (RowCodec(SCHEMA), RowCodec(RecordSchema("s", "any", (Field("a", "int64", (-1,)),)))):
        for blob, raw in ((data, b"\x80"), (b"", data), (data, data)):
            try:
                codec.decode(blob, raw)
            except ValueError:
                continue


@pytest.mark.parametrize("size", [(1 << 14) - 4, 1 << 28, (1 << 14) + 2])
def test_header_sizes_outside_the_limits_are_rejected(size: int) -> None:
    with pytest.raises(ValueError, match="must be a multiple of 4"):
        Geometry(size, 1 << 15)
