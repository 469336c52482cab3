"""A process without a folder for temporary files."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from schemas.process.temporary_folder import temporary_folder_problem


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No folder is usable, as Python finds it."""

    def gettempdir() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", gettempdir)
    return monkeypatch


def test_a_temporary_folder_is_no_problem() -> None:
    assert temporary_folder_problem() is None


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_each_folder_that_was_tried_is_named_with_its_fault(
    tmp_path: Path, refuse: pytest.MonkeyPatch, kind: str
) -> None:
    path = tmp_path / "scratch"
    if kind == "file":
        path.touch()
    refuse.setenv("TMPDIR", str(path))
    found = temporary_folder_problem()
    assert found is not None
    why = os.strerror(errno.ENOTDIR if kind == "file" else errno.ENOENT)
    assert f"{path} ({why}); set TMPDIR to a folder that can be" in found.text
    assert not found.full


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_full_disks_may_have_room_later(tmp_path: Path, refuse: pytest.MonkeyPatch, number: int) -> None:
    original = tempfile.mkstemp

    def mkstemp(dir: str) -> tuple[int, str]:
        if dir == str(tmp_path):
            raise OSError(number, os.strerror(number))
        return original(dir=dir)

    refuse.setattr(tempfile, "mkstemp", mkstemp)
    refuse.setenv("TMPDIR", str(tmp_path))
    found = temporary_folder_problem()
    assert found is not None
    assert (found.full, f"{tmp_path} ({os.strerror(number)}); make room there" in found.text) == (True, True)
