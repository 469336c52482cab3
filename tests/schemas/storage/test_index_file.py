import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from schemas.errors import ContractError
from schemas.storage.index_file import open_index

ENDLESS = "WITH RECURSIVE n(ROW_ID) AS (SELECT 0 UNION ALL SELECT ROW_ID + 1 FROM n) SELECT ROW_ID FROM n"
PLAIN = {"INDEXES": "CREATE TABLE INDEXES(ROW_ID INT)", "SHARD_NAME": "CREATE TABLE SHARD_NAME(NAME TEXT)"}


def write(path: Path, **statements: str) -> Path:
    with closing(sqlite3.connect(path)) as db:
        for statement in (PLAIN | statements).values():
            db.execute(statement)
        db.commit()
    return path


def test_plain_tables_are_read(tmp_path: Path) -> None:
    with open_index(write(tmp_path / "a.db")) as db:
        assert db.execute("SELECT count(*) FROM INDEXES").fetchone() == (0,)


@pytest.mark.parametrize(
    "statements",
    [
        {"INDEXES": f"CREATE VIEW INDEXES AS {ENDLESS}"},
        {"SHARD_NAME": "CREATE VIEW SHARD_NAME AS SELECT 'a' AS NAME"},
        {"INDEXES": "CREATE TABLE INDEXES(ROW_ID INT, n INT GENERATED ALWAYS AS (ROW_ID + 1))"},
        {"INDEXES": "CREATE VIRTUAL TABLE INDEXES USING fts4(ROW_ID)"},
        {"INDEXES": "CREATE TABLE other(ROW_ID INT)"},
    ],
)
def test_views_and_generated_columns_are_rejected(tmp_path: Path, statements: dict[str, str]) -> None:
    with (
        pytest.raises(ContractError, match="is not the index of a shard"),
        open_index(write(tmp_path / "a.db", **statements)),
    ):
        pass


def test_a_fifo_or_a_missing_file_is_rejected_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.db")
    for name, said in (("a.db", "a.db is not a regular file"), ("b.db", "b.db is missing")):
        with pytest.raises(ContractError, match=said), open_index(tmp_path / name):
            pass
