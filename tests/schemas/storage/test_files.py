import errno
import os
from pathlib import Path

import pytest

from schemas.storage.files import give_group, sync


def failing(number: int) -> object:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_cannot_sync_folders_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "fsync", failing(number))
    sync(tmp_path)
    with pytest.raises(OSError, match=os.strerror(number)):
        sync(tmp_path / "file")


def test_a_disk_that_fails_to_sync_a_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        sync(tmp_path)


@pytest.mark.parametrize("number", [errno.EPERM, errno.EINVAL])
def test_a_group_that_cannot_be_given_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "chown", failing(number))
    give_group(tmp_path / "file", os.stat(tmp_path).st_gid + 1)
