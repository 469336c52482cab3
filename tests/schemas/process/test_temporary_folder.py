"""A process without a folder for temporary files."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from schemas.process import temporary_folder
from schemas.process.temporary_folder import temporary_folder_problem


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Python finds no usable folder."""

    def gettempdir() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", gettempdir)
    return monkeypatch


def test_usable_temporary_folder_is_no_problem() -> None:
    assert temporary_folder_problem() is None


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_each_tried_folder_is_named_with_its_error(tmp_path: Path, refuse: pytest.MonkeyPatch, kind: str) -> None:
    path = tmp_path / "scratch"
    if kind == "file":
        path.touch()
    refuse.setenv("TMPDIR", str(path))
    found = temporary_folder_problem()
    assert found is not None
    why = os.strerror(errno.ENOTDIR if kind == "file" else errno.ENOENT)
    assert f"{path} ({why}); set TMPDIR to a writable folder" in found.text
    assert not found.full


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_full_disks_are_reported_as_full(tmp_path: Path, refuse: pytest.MonkeyPatch, number: int) -> None:
    error = OSError(number, os.strerror(number))
    refuse.setattr(temporary_folder, "write_error", lambda folder: error if folder == str(tmp_path) else None)
    refuse.setenv("TMPDIR", str(tmp_path))
    found = temporary_folder_problem()
    assert found is not None
    assert (found.full, f"{tmp_path} ({os.strerror(number)}); free space there" in found.text) == (True, True)
