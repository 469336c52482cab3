import os
import sys
from pathlib import Path

import pytest

from schemas.config_file import read_toml
from schemas.storage.text_file import Unusable, read_text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_is_read_in_the_encodings_that_editors_write(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "names").write_bytes("猫\ndog\n".encode(encoding))
    assert read_text(tmp_path / "names") == "猫\ndog\n"


def test_text_in_another_encoding_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "names").write_bytes(b"dog\nc\xe4t\n")
    with pytest.raises(Unusable, match=r"names is not UTF-8 text \(line 2\); save it as UTF-8"):
        read_text(tmp_path / "names")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"val = [", "is not valid TOML"),
        (b"val = 0.1\0", "is not valid TOML"),
    ],
)
def test_broken_toml_is_refused_in_a_sentence_that_names_the_file(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "job.toml").write_bytes(content)
    with pytest.raises(Unusable, match=f"job.toml {said}|job.toml is not valid TOML: .*{said}"):
        read_toml(tmp_path / "job.toml")


def test_deeply_nested_toml_is_refused(tmp_path: Path) -> None:
    depth = 2 * sys.getrecursionlimit()
    (tmp_path / "job.toml").write_text("a = " + "[" * depth + "]" * depth)
    with pytest.raises(Unusable, match=r"job\.toml is not valid TOML: its values are nested too deeply"):
        read_toml(tmp_path / "job.toml")


def test_a_file_that_cannot_be_read_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    reasons = {"fifo": "is not a regular file", "none": "cannot be read: No such file", ".": "is not a regular file"}
    for name, said in reasons.items():
        with pytest.raises(Unusable, match=said):
            read_toml(tmp_path / name)
