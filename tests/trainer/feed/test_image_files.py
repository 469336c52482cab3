"""Which files `trainer predict` looks at, and what it says of those that it passes over."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from trainer.errors import Busy, TrainerError, Unlisted
from trainer.feed.image_files import find_files


def close(monkeypatch: pytest.MonkeyPatch, folder: Path, number: int) -> None:
    """Let the folder be one that cannot be listed."""
    scandir = os.scandir

    def fail(path: Any) -> Any:
        if os.fspath(path) == str(folder):
            raise OSError(number, os.strerror(number), path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", fail)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Folders a, b with an image each, and a link to a folder elsewhere."""
    for name in ("photos/a/1.jpg", "photos/b/2.jpg", "elsewhere/3.jpg"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    (tmp_path / "photos" / "linked").symlink_to(tmp_path / "elsewhere")
    return tmp_path / "photos"


@pytest.mark.parametrize(("number", "error"), [(errno.EACCES, Unlisted), (errno.EIO, Busy)])
def test_a_closed_folder_is_skipped_and_reported(
    photos: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[TrainerError]
) -> None:
    close(monkeypatch, photos / "b", number)
    files, skipped = find_files([photos])
    assert files == [photos / "a" / "1.jpg"]
    with pytest.raises(error, match=r"^1 folder could not be listed, .*photos/b' \("):
        skipped.check()


def test_unreadable_folder_does_not_count_as_empty(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close(monkeypatch, photos / "b", errno.EACCES)
    with pytest.raises(Unlisted, match="could not be listed"):
        find_files([photos / "b"])


def test_link_to_a_folder_is_reported_and_followed_when_given(photos: Path) -> None:
    files, skipped = find_files([photos])
    assert [file.name for file in files] == ["1.jpg", "2.jpg"]
    skipped.check()
    (line,) = skipped.lines()
    assert "1 link, " in line
    assert "photos/linked'" in line
    assert [file.name for file in find_files([photos / "linked"])[0]] == ["3.jpg"]


def test_system_folders_are_counted(photos: Path) -> None:
    (photos / "a" / "@eaDir").mkdir()
    (photos / "a" / "@eaDir" / "1.jpg").touch()
    files, skipped = find_files([photos / "a"])
    assert [file.name for file in files] == ["1.jpg"]
    assert skipped.lines() == ["system files and folders are skipped: 1 @eadir"]


def test_unreadable_input_is_reported(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, **_: Any) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", fail)
    with pytest.raises(Unlisted, match=r"cannot read .*: Permission denied"):
        find_files([photos])
