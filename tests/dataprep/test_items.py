import os
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.items import column_to_path, key_to_path, path_to_column
from schemas.names import path_to_key


@given(
    st.lists(st.sampled_from([b"a", b"%", b"2", b"5", b"F", b"f", b"8", b"\xff", b"\x80", "é".encode(), b"/", b"\n"]))
)
def test_every_path_has_its_own_valid_key(parts: list[bytes]) -> None:
    path = os.fsdecode(b"".join(parts))
    key = path_to_key(path)
    key.encode()
    assert key_to_path(key) == path


def test_ordinary_names_are_unchanged() -> None:
    for name in ("cat/1.jpg", "50% off.jpg", "a%20b.jpg", "猫/é.png", "line\nbreak.jpg"):
        assert path_to_key(name) == name


def test_bytes_that_are_not_utf8_are_escaped_and_the_escape_is_unambiguous() -> None:
    assert path_to_key(os.fsdecode(b"a\xff.jpg")) == "a%FF.jpg"
    assert path_to_key("a%FF.jpg") == "a%25FF.jpg"


@pytest.mark.parametrize("path", ["a/b.tar", "é/漢", "caf\udce9", "caf\udce9/é"])
def test_a_column_of_sqlite_keeps_every_path(path: str) -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        assert column_to_path(db.execute("SELECT ?", (path_to_column(path),)).fetchone()[0]) == path
