"""The pool of local processes on a machine that lacks what it needs."""

import errno
import os
from pathlib import Path

import pytest

from dataprep.engines import local
from dataprep.errors import DataprepError
from dataprep.options import ShardOptions


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.ENOENT, errno.EACCES])
def test_a_shared_memory_folder_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(local, "ProcessPoolExecutor", refuse)
    with pytest.raises(DataprepError, match=r"/dev/shm cannot be used .*--engine serial"):
        local.process(ShardOptions(), 1, str(tmp_path), tmp_path).__enter__()
