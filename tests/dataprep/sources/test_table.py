"""A source is one file and one line of the table: nothing else knows its name."""

import ast

import pytest

from dataprep.sources import SOURCES, find_source
from dataprep.sources.source import Source
from tests.examples import ROOT

WORDS = {"classes", "splits", "mindrecord"}  # words with other meanings too
FILES = [
    path
    for package in ("dataprep", "schemas")
    for path in sorted((ROOT / package).rglob("*.py"))
    if "dataprep/sources" not in path.as_posix()
]


@pytest.mark.parametrize("layout", sorted(SOURCES.keys() - WORDS))
def test_no_other_file_names_a_layout(layout: str) -> None:
    for path in FILES:
        strings = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        assert layout not in strings, path.relative_to(ROOT)


@pytest.mark.parametrize("layout", SOURCES)
def test_every_layout_says_what_it_expects(layout: str) -> None:
    source = find_source(layout)
    assert isinstance(source, Source)
    assert "SOURCE" in source.expected
