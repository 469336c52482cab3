import os
from pathlib import Path

import pytest

from schemas.storage.text_file import Unusable, read_text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_is_read_in_the_encodings_that_editors_write(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "names").write_bytes("猫\ndog\n".encode(encoding))
    assert read_text(tmp_path / "names") == "猫\ndog\n"


def test_text_in_another_encoding_is_rejected_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "names").write_bytes(b"dog\nc\xe4t\n")
    with pytest.raises(Unusable, match=r"names is not UTF-8 text \(line 2\); save it as UTF-8"):
        read_text(tmp_path / "names")


def test_a_file_that_cannot_be_read_is_an_error_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    reasons = {"fifo": "is not a regular file", "none": "cannot be read: No such file", ".": "is not a regular file"}
    for name, reason in reasons.items():
        with pytest.raises(Unusable, match=reason):
            read_text(tmp_path / name)
