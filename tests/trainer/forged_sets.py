"""Copies of a small sealed set in which one thing is wrong and every digest fits, as an attacker makes them."""

import dataclasses
import json
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from schemas.dataset import Shard, file_sha256, load_dataset
from schemas.layout import DATASET, index_name

NAME = "train.mindrecord0"  # the shard that is changed
ENDLESS = "WITH RECURSIVE n(ROW_ID) AS (SELECT 0 UNION ALL SELECT ROW_ID + 1 FROM n)"
PLACES = (
    "PAGE_ID_RAW, PAGE_OFFSET_RAW, PAGE_OFFSET_RAW_END, ROW_GROUP_ID, PAGE_ID_BLOB, PAGE_OFFSET_BLOB, "
    "PAGE_OFFSET_BLOB_END, INC_0, label_0, INC_1, key_0"
)
Header = dict[str, Any]
Forgery = Callable[[Path], None]  # changes the shard at that path, or the index beside it


def header_of(shard: Path) -> Header:
    data = shard.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header: Header = json.loads(data[8 : 8 + size])
    return header


def write_header(shard: Path, text: bytes, size: int | None = None) -> None:
    with shard.open("r+b") as file:
        file.write(struct.pack("<Q", len(text) if size is None else size) + text)


def in_header(change: Callable[[Header], object]) -> Forgery:
    def forge(shard: Path) -> None:
        header = header_of(shard)
        change(header)
        write_header(shard, json.dumps(header).encode())

    return forge


def in_index(*statements: str) -> Forgery:
    def forge(shard: Path) -> None:
        with closing(sqlite3.connect(shard.with_name(index_name(shard.name)))) as db:
            for statement in statements:
                db.execute(statement)
            db.commit()

    return forge


def index_bytes(change: Callable[[bytes], bytes]) -> Forgery:
    def forge(shard: Path) -> None:
        path = shard.with_name(index_name(shard.name))
        path.write_bytes(change(path.read_bytes()))

    return forge


def in_page(number: int, offset: int, data: bytes) -> Forgery:
    def forge(shard: Path) -> None:
        header = header_of(shard)
        with shard.open("r+b") as file:
            file.seek(header["header_size"] + number * header["page_size"] + offset)
            file.write(data)

    return forge


def replaced(column: str, text: str) -> Forgery:
    """The index with another declaration of a column."""
    return in_index(
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_master SET sql = replace(sql, '{column}', '{text}') WHERE name = 'INDEXES'",
    )


def _pages(header: Header) -> list[Header]:
    pages: list[Header] = header["page"]
    return pages


HEADERS: dict[str, Forgery] = {
    "more_rows": in_header(lambda h: _pages(h)[0].update(end_row_id=4000)),
    "fewer_rows": in_header(lambda h: _pages(h)[0].update(end_row_id=3)),
    "rows_begin_late": in_header(lambda h: _pages(h)[0].update(start_row_id=5)),
    "negative_rows": in_header(lambda h: _pages(h)[0].update(end_row_id=-5)),
    "rows_as_text": in_header(lambda h: _pages(h)[0].update(end_row_id="12")),
    "page_size_larger": in_header(lambda h: h.update(page_size=65536)),
    "page_size_huge": in_header(lambda h: h.update(page_size=1 << 62)),
    "page_size_zero": in_header(lambda h: h.update(page_size=0)),
    "page_size_text": in_header(lambda h: h.update(page_size="32768")),
    "header_size_other": in_header(lambda h: h.update(header_size=32768)),
    "header_size_zero": in_header(lambda h: h.update(header_size=0)),
    "used_of_a_page": in_header(lambda h: _pages(h)[0].update(page_size=1 << 40)),
    "used_of_a_raw_page": in_header(lambda h: _pages(h)[1].update(page_size=32768)),
    "page_type": in_header(lambda h: _pages(h)[0].update(page_type="OTHER")),
    "page_id": in_header(lambda h: _pages(h)[0].update(page_id=7)),
    "no_page": in_header(lambda h: h.update(page=None)),
    "a_page_less": in_header(lambda h: h.update(page=_pages(h)[:1])),
    "page_as_object": in_header(lambda h: h.update(page={"a": 1})),
    "no_group": in_header(lambda h: _pages(h)[1].update(row_group_ids=[])),
    "foreign_group": in_header(lambda h: _pages(h)[1].update(row_group_ids=[{"id": 9, "offset": 0}])),
    "group_offset": in_header(lambda h: _pages(h)[1].update(row_group_ids=[{"id": 0, "offset": 1 << 40}])),
    "group_of_blob_page": in_header(lambda h: _pages(h)[0].update(page_type_id=5)),
    "type_of_label": in_header(lambda h: h["schema"][0]["schema"].update(label={"type": "string"})),
    "type_of_image": in_header(lambda h: h["schema"][0]["schema"].update(image={"type": "int32", "shape": [2]})),
    "type_unknown": in_header(lambda h: h["schema"][0]["schema"].update(label={"type": "int7"})),
    "shape_of_label": in_header(lambda h: h["schema"][0]["schema"].update(label={"type": "int32", "shape": [1 << 40]})),
    "no_label": in_header(lambda h: h["schema"][0]["schema"].pop("label")),
    "one_more_field": in_header(lambda h: h["schema"][0]["schema"].update(more={"type": "int32"})),
    "no_blob_field": in_header(lambda h: h["schema"][0].update(blob_fields=[])),
    "two_blob_fields": in_header(lambda h: h["schema"][0].update(blob_fields=["image", "key"])),
    "no_schema": in_header(lambda h: h.update(schema=[])),
    "schema_null": in_header(lambda h: h.update(schema=None)),
    "two_schemas": in_header(lambda h: h.update(schema=h["schema"] * 2)),
    "no_index_fields": in_header(lambda h: h.update(index_fields=None)),
    "other_index_field": in_header(lambda h: h.update(index_fields=[{"index_field": "image", "schema_id": 0}])),
    "index_schema_id": in_header(lambda h: h["index_fields"][0].update(schema_id=9)),
    "no_names": in_header(lambda h: h.update(shard_addresses=[])),
    "another_name": in_header(lambda h: h.update(shard_addresses=["val.mindrecord0"])),
    "a_name_elsewhere": in_header(lambda h: h.update(shard_addresses=["/etc/passwd"])),
    "names_as_numbers": in_header(lambda h: h.update(shard_addresses=[7])),
    "shard_id_large": in_header(lambda h: h.update(shard_id=9)),
    "shard_id_negative": in_header(lambda h: h.update(shard_id=-1)),
    "shard_id_text": in_header(lambda h: h.update(shard_id="a")),
    "shard_id_of_a_page": in_header(lambda h: _pages(h)[0].update(shard_id=3)),
    "version": in_header(lambda h: h.update(version="9.9")),
    "version_number": in_header(lambda h: h.update(version=3)),
    "saved_text": in_header(lambda h: h.update(compression_size="much")),
    "saved_negative": in_header(lambda h: h.update(compression_size=-1 << 40)),
    "statistics": in_header(lambda h: h.update(statistics=[{"a": 1}])),
    "a_key_twice": lambda shard: write_header(
        shard, json.dumps(header_of(shard)).encode()[:-1] + b',"page_size":65536,"page_size":32768}'
    ),
    "a_list": lambda shard: write_header(shard, b"[1, 2]"),
    "not_json": lambda shard: write_header(shard, b"{no json"),
    "deep": lambda shard: write_header(shard, b'{"page":' + b"[" * 7000 + b"]" * 7000 + b"}"),
    "not_utf8": lambda shard: write_header(
        shard, json.dumps(header_of(shard)).encode().replace(b'"test"', b'"\xff\xfe\xff\xfe"')
    ),
    "length_zero": lambda shard: write_header(shard, b"", 0),
    "length_huge": lambda shard: write_header(shard, b"{", 1 << 63),
    "length_past_the_end": lambda shard: write_header(shard, b"{", 1 << 20),
}
INDEXES: dict[str, Forgery] = {
    "indexes_endless_view": in_index(
        "ALTER TABLE INDEXES RENAME TO rows_",
        f"CREATE VIEW INDEXES AS {ENDLESS} SELECT n.ROW_ID, {PLACES} FROM n, rows_",
    ),
    "shard_name_view": in_index("DROP TABLE SHARD_NAME", f"CREATE VIEW SHARD_NAME AS SELECT '{NAME}' AS NAME"),
    "shard_name_endless": in_index(
        "DROP TABLE SHARD_NAME", f"CREATE VIEW SHARD_NAME AS {ENDLESS} SELECT 'a' AS NAME FROM n"
    ),
    "shard_name_other": in_index("UPDATE SHARD_NAME SET NAME = 'other'"),
    "shard_name_none": in_index("DELETE FROM SHARD_NAME"),
    "shard_name_twice": in_index("INSERT INTO SHARD_NAME VALUES('other')"),
    "shard_name_bytes": in_index("UPDATE SHARD_NAME SET NAME = x'ff00ff'"),
    "shard_name_gone": in_index("DROP TABLE SHARD_NAME"),
    "indexes_gone": in_index("DROP TABLE INDEXES"),
    "no_rows": in_index("DELETE FROM INDEXES"),
    "a_row_less": in_index("DELETE FROM INDEXES WHERE ROW_ID = 11"),
    "a_row_more": in_index(f"INSERT INTO INDEXES SELECT 99, {PLACES} FROM INDEXES WHERE ROW_ID = 0"),
    "a_row_far": in_index("UPDATE INDEXES SET ROW_ID = 900 WHERE ROW_ID = 3"),
    "a_row_as_text": in_index("UPDATE INDEXES SET ROW_ID = 'x' WHERE ROW_ID = 3"),
    "a_row_negative": in_index("UPDATE INDEXES SET ROW_ID = -3 WHERE ROW_ID = 3"),
    "blob_page_foreign": in_index("UPDATE INDEXES SET PAGE_ID_BLOB = 900"),
    "blob_page_negative": in_index("UPDATE INDEXES SET PAGE_ID_BLOB = -1"),
    "blob_page_text": in_index("UPDATE INDEXES SET PAGE_ID_BLOB = 'x'"),
    "blob_page_is_raw": in_index("UPDATE INDEXES SET PAGE_ID_BLOB = 1"),
    "raw_page_foreign": in_index("UPDATE INDEXES SET PAGE_ID_RAW = 900"),
    "raw_page_is_blob": in_index("UPDATE INDEXES SET PAGE_ID_RAW = 0"),
    "blob_ends_before_it_begins": in_index("UPDATE INDEXES SET PAGE_OFFSET_BLOB_END = 0"),
    "blob_past_the_end": in_index("UPDATE INDEXES SET PAGE_OFFSET_BLOB_END = 1 << 40"),
    "blob_begins_far": in_index("UPDATE INDEXES SET PAGE_OFFSET_BLOB = 30000, PAGE_OFFSET_BLOB_END = 31000"),
    "blob_negative": in_index("UPDATE INDEXES SET PAGE_OFFSET_BLOB = -100"),
    "blob_shifted": in_index("UPDATE INDEXES SET PAGE_OFFSET_BLOB = PAGE_OFFSET_BLOB + 3 WHERE ROW_ID = 4"),
    "blob_shorter": in_index("UPDATE INDEXES SET PAGE_OFFSET_BLOB_END = PAGE_OFFSET_BLOB + 4"),
    "raw_past_the_end": in_index("UPDATE INDEXES SET PAGE_OFFSET_RAW_END = 1 << 40"),
    "raw_shifted": in_index("UPDATE INDEXES SET PAGE_OFFSET_RAW = PAGE_OFFSET_RAW + 3"),
    "raw_shorter": in_index("UPDATE INDEXES SET PAGE_OFFSET_RAW_END = PAGE_OFFSET_RAW + 9"),
    "group_foreign": in_index("UPDATE INDEXES SET ROW_GROUP_ID = 77"),
    "group_text": in_index("UPDATE INDEXES SET ROW_GROUP_ID = 'x'"),
    "label_text": in_index("UPDATE INDEXES SET label_0 = 'x' WHERE ROW_ID = 3"),
    "label_null": in_index("UPDATE INDEXES SET label_0 = NULL WHERE ROW_ID = 3"),
    "label_large": in_index("UPDATE INDEXES SET label_0 = 1 << 40 WHERE ROW_ID = 3"),
    "label_real": in_index("UPDATE INDEXES SET label_0 = 0.5 WHERE ROW_ID = 3"),
    "label_bytes": in_index("UPDATE INDEXES SET label_0 = x'ff' WHERE ROW_ID = 3"),
    "inc_text": in_index("UPDATE INDEXES SET INC_0 = 'x' WHERE ROW_ID = 3"),
    "key_bytes": in_index("UPDATE INDEXES SET key_0 = x'ff00' WHERE ROW_ID = 3"),
    "label_column_gone": in_index("ALTER TABLE INDEXES RENAME COLUMN label_0 TO other_0"),
    "key_column_gone": in_index("ALTER TABLE INDEXES RENAME COLUMN key_0 TO other_0"),
    "row_column_gone": in_index("ALTER TABLE INDEXES RENAME COLUMN ROW_ID TO other_0"),
    "page_column_gone": in_index("ALTER TABLE INDEXES RENAME COLUMN PAGE_ID_BLOB TO other_0"),
    "one_more_column": in_index("ALTER TABLE INDEXES ADD COLUMN more INT"),
    "generated_column": in_index("ALTER TABLE INDEXES ADD COLUMN more INT GENERATED ALWAYS AS (ROW_ID + 1)"),
    "one_more_table": in_index("CREATE TABLE more(a INT)"),
    "one_more_view": in_index(f"CREATE VIEW more AS {ENDLESS} SELECT * FROM n"),
    "a_trigger": in_index("CREATE TRIGGER more AFTER DELETE ON INDEXES BEGIN SELECT 1; END"),
    "table_without_end": replaced("CREATE TABLE INDEXES(", "CREATE TABLE INDEXES(((("),
    "not_sqlite": index_bytes(lambda data: b"SQLite format 3\0" + b"\xff" * 9000),
    "empty_index": index_bytes(lambda data: b""),
    "cut_index": index_bytes(lambda data: data[:5000]),
}
DATA: dict[str, Forgery] = {
    "blob_length_huge": in_page(0, 0, struct.pack("<Q", 1 << 62)),
    "blob_length_zero": in_page(0, 0, struct.pack("<Q", 0)),
    "blob_length_longer": in_page(0, 0, struct.pack("<Q", 9000)),
    "raw_length_huge": in_page(1, 0, struct.pack("<Q", 1 << 62)),
    "raw_length_zero": in_page(1, 0, struct.pack("<Q", 0)),
    "raw_noise": in_page(1, 8, b"\xc1" * 24),
    "raw_array": in_page(1, 8, b"\xdd\xff\xff\xff\xff" + b"\x91" * 19),
    "raw_empty_map": in_page(1, 8, b"\x80"),
    "raw_label_is_text": in_page(1, 8, b"\x82\xa3key\xa1a\xa5label\xa1x"),
    "raw_label_is_large": in_page(1, 31, b"\x63"),
    "raw_label_is_negative": in_page(1, 31, b"\xff"),
    "raw_key_is_number": in_page(1, 8, b"\x82\xa3key\x01\xa5label\x01"),
}
FORGERIES = HEADERS | INDEXES | DATA


def forge(source: Path, folder: Path, forgery: Forgery) -> Path:
    """A copy of the sealed set `source` in `folder`, forged and sealed again."""
    shutil.copytree(source, folder)
    forgery(folder / NAME)
    reseal(folder)
    return folder


def reseal(folder: Path) -> None:
    dataset = load_dataset(folder)
    splits = {
        name: dataclasses.replace(split, shards=tuple(_sealed(folder, shard) for shard in split.shards))
        for name, split in dataset.splits.items()
    }
    (folder / DATASET).write_bytes(dataclasses.replace(dataset, splits=splits).to_json())


def _sealed(folder: Path, shard: Shard) -> Shard:
    data, index = folder / shard.name, folder / index_name(shard.name)
    sizes = data.stat().st_size, file_sha256(data), index.stat().st_size, file_sha256(index)
    return Shard(shard.name, shard.rows, *sizes)
