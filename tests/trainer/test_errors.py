"""Errors of disks, from Python and from MindSpore's C++ code, as one sentence and an exit code."""

import dataclasses
import errno
import os
from pathlib import Path

import pytest

from schemas.errors import ContractError
from schemas.storage.files import until_uninterrupted
from tests.trainer.run_folders import CONFIG, write_run
from trainer.errors import disk_error, disk_error_behind
from trainer.report.history import read_run
from trainer.runs import checkpoint
from trainer.runs.folder import append_line
from trainer.runs.history import start_settings
from trainer.runs.resume import finished


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (errno.ENOSPC, 75, "the disk is full (/r/a); free some space, then run the same command again"),
        (errno.EDQUOT, 75, "the disk quota is used up (/r/a); free some space, then run the same command again"),
        (errno.EMFILE, 75, "too many open files (/r/a); raise the limit with 'ulimit -n', then run the same command"),
        (
            errno.EIO,
            75,
            "/r/a: Input/output error; when the disk or share is available again, run the same command again",
        ),
        (
            errno.ESTALE,
            75,
            "/r/a: Stale file handle; when the disk or share is available again, run the same command again",
        ),
        (errno.ETIMEDOUT, 75, "/r/a: Connection timed out; when the disk or share is available again"),
        (errno.EINTR, 75, "/r/a: Interrupted system call; when"),
        (errno.EACCES, 1, "/r/a: Permission denied; give this user read and write access, or use another path"),
        (errno.EROFS, 1, "/r/a: Read-only file system; give this user"),
        (errno.ENOENT, 1, "/r/a: No such file or directory; restore it if it was moved or removed"),
        (errno.EFBIG, 1, "/r/a: File too large"),
    ],
)
def test_disk_error_has_a_message_and_an_exit_code(number: int, code: int, said: str) -> None:
    told = disk_error(OSError(number, os.strerror(number), "/r/a"))
    assert told.exit_code == code
    assert str(told).startswith(said)


def test_disk_error_is_found_in_mindspores_text_and_causes() -> None:
    said = "Save failed.\nopen file '/m/x.mindir' failed, errno: No space left on device"
    native = disk_error_behind(RuntimeError(said))
    assert native is not None
    assert (native.errno, native.filename) == (errno.ENOSPC, "/m/x.mindir")
    wrapped = ValueError("Failed to read the checkpoint file")
    wrapped.__cause__ = OSError(errno.EIO, "Input/output error")
    assert disk_error_behind(wrapped) is wrapped.__cause__
    assert disk_error_behind(RuntimeError("shapes differ")) is None


def test_interrupted_call_is_retried() -> None:
    left = [InterruptedError(), InterruptedError()]

    @until_uninterrupted
    def call() -> str:
        if left:
            raise left.pop()
        return "done"

    assert call() == "done"


def test_incomplete_line_does_not_damage_others(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    append_line(path, "1")
    with path.open("a") as file:
        file.write('{"cut')
    assert append_line(path, "2") == path.stat().st_size
    assert path.read_text().splitlines() == ["1", '{"cut', "2"]


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_failed_save_keeps_the_previous_checkpoint(
    call: str, untrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, meta = checkpoint.load(untrained)
    path = tmp_path / "last.ckpt"
    checkpoint.save(path, weights, meta)
    before = path.read_bytes()

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, call, fails)
    with pytest.raises(OSError, match="Input/output error") as failed:
        checkpoint.save(path, weights, meta)
    assert failed.value.filename == str(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["last.ckpt"]


def test_a_checkpoint_that_cannot_be_read_is_not_called_damaged(
    untrained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mindspore

    def fails(*_: object, **__: object) -> None:
        raise ValueError("Failed to read the checkpoint file") from OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(mindspore, "load_checkpoint", fails)
    with pytest.raises(OSError, match="Input/output error") as failed:
        checkpoint.load(untrained)
    assert failed.value.filename == str(untrained)


@pytest.mark.slow
def test_a_fifo_in_place_of_a_file_is_rejected_at_once(tmp_path: Path) -> None:
    fifo = tmp_path / "last.ckpt"
    os.mkfifo(fifo)
    with pytest.raises(ContractError, match="is not a regular file"):
        checkpoint.load(fifo)
    os.mkfifo(tmp_path / "starts.jsonl")
    with pytest.raises(ContractError, match="is not a regular file"):
        start_settings(str(tmp_path))


@pytest.mark.parametrize("name", ["result.json", "steps.jsonl", "nonfinite.json"])
def test_a_page_of_a_run_with_a_fifo_or_socket_says_what_is_missing(name: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    assert any(one.file == name and "not a regular file" in one.why for one in read_run(run).missing)


def test_a_result_that_is_a_fifo_is_rejected(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "result.json").unlink()
    os.mkfifo(run / "result.json")
    with pytest.raises(ContractError, match="is not a regular file"):
        finished(dataclasses.replace(CONFIG, out=str(run)))
