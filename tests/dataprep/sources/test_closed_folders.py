"""A folder that cannot be listed refuses the job, whatever the budgets: how many images it holds is not known."""

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dataprep.errors import DataprepError, DataRejected, TryLater, WrongUsage
from dataprep.job.dry_run import preview
from dataprep.options import Budget
from tests.dataprep.examples import QUICK, ClosedScandir, Silent, shard

ANY = {"max_rejects": Budget(1.0, True), "max_class_loss": Budget(1.0, True)}


def dry_run(source: Path, out: Path) -> None:
    preview(source, out, replace(QUICK, max_rejects=Budget(1.0, True)), Silent())


@pytest.mark.parametrize("job", [lambda source, out: shard(source, out, **ANY), dry_run])
def test_unreadable_folder_rejects_the_job_and_is_named(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: Callable[[Path, Path], object]
) -> None:
    monkeypatch.setattr(os, "scandir", ClosedScandir({"cat": errno.EACCES}))
    with pytest.raises(DataRejected, match=r"^1 folder of SOURCE .*: 'cat' \(Permission denied\).*: --ignore /cat/$"):
        job(raw, tmp_path / "out")


PASSING = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EREMOTEIO, errno.ENODEV, errno.EHOSTDOWN)


@pytest.mark.parametrize("number", [*PASSING, errno.ENOENT])
def test_temporary_folder_error_gives_exit_code_75(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "scandir", ClosedScandir({"cat": number}))
    with pytest.raises(TryLater, match="'cat'"):
        shard(raw, tmp_path / "out", **ANY)
    monkeypatch.undo()
    assert shard(raw, tmp_path / "out", **ANY).written == 40


def test_folder_that_becomes_unreadable_after_the_plan_rejects_the_rerun(
    raw: Path, sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sealed / "dataset.json").unlink()
    monkeypatch.setattr(os, "scandir", ClosedScandir({"dog": errno.EACCES}))
    with pytest.raises(DataRejected, match="'dog'"):
        shard(raw, sealed, num_shards=3)
    monkeypatch.undo()
    assert shard(raw, sealed, num_shards=3).written == 40


def test_unreadable_folder_that_is_ignored_by_name_is_no_error(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "scandir", ClosedScandir({"cat": errno.EACCES}))
    assert shard(raw, tmp_path / "out", ignore=("/cat/",)).classes == 1


@pytest.mark.parametrize(
    ("number", "error"), [(errno.EACCES, DataRejected), (errno.EIO, TryLater), (errno.ENOENT, WrongUsage)]
)
def test_unreadable_source_is_reported(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[DataprepError]
) -> None:
    monkeypatch.setattr(os, "scandir", ClosedScandir({"raw": number, "": number}))
    with pytest.raises(DataprepError) as refused:
        shard(raw, tmp_path / "out")
    assert type(refused.value) is error
    assert not (tmp_path / "out").exists()


def test_many_unreadable_folders_are_counted_and_the_first_are_named(
    tmp_path: Path, raw: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"closed{number}" for number in range(7)]
    for name in names:
        (raw / "cat" / name).mkdir()
    monkeypatch.setattr(os, "scandir", ClosedScandir(dict.fromkeys(names, errno.EACCES)))
    with pytest.raises(DataRejected) as refused:
        shard(raw, tmp_path / "out", **ANY)
    assert str(refused.value).startswith("7 folders of SOURCE")
    assert "'cat/closed4' (Permission denied) and 2 more" in str(refused.value)
