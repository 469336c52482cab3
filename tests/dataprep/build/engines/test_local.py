"""The pool of local processes on a machine without shared memory or memory."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from dataprep import pipeline
from dataprep.build.engines import local
from tests.dataprep.examples import QUICK, Silent, digests, shard


def refuse_pool(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(local, "ProcessPoolExecutor", refuse)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.ENOENT, errno.EACCES, errno.ENOSYS])
def test_without_shared_memory_the_serial_engine_writes_the_same_bytes_and_is_reported(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    shard(raw, tmp_path / "serial", num_shards=3)
    refuse_pool(monkeypatch, number)
    progress = Silent()
    pipeline.shard(raw, tmp_path / "out", replace(QUICK, engine="process", workers=2, num_shards=3), progress)
    assert digests(tmp_path / "out") == digests(tmp_path / "serial")
    [said] = progress.fallbacks
    assert "process was requested, serial is in effect" in said
    assert f"/dev/shm cannot be used ({os.strerror(number)})" in said


@pytest.mark.parametrize(("number", "said"), [(errno.EMFILE, "ulimit -n"), (errno.ENOMEM, os.strerror(errno.ENOMEM))])
def test_pool_that_fails_for_another_reason_is_not_replaced(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    refuse_pool(monkeypatch, number)
    with pytest.raises(Exception, match=said):
        shard(raw, tmp_path / "out", engine="process", workers=2)
