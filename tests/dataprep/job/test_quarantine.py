"""Copying refused files aside never keeps a finished job from being sealed."""

import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from dataprep.cli.text import as_lines
from dataprep.errors import DataRejected, TryLater
from dataprep.job import quarantine
from dataprep.options import Budget
from tests.dataprep.examples import shard

ALLOWED = Budget(9, False)


@pytest.fixture
def bad(raw: Path) -> Path:
    """SOURCE with three files that are refused."""
    for name in ("1", "2", "3"):
        (raw / "cat" / f"{name}.jpg").write_bytes(b"<html>" + name.encode())
    return raw


def copied(aside: Path) -> set[str]:
    return {path.name for path in aside.rglob("*") if path.is_file()}


def fail_reading(monkeypatch: pytest.MonkeyPatch, data: bytes, action: Any) -> None:
    """Do `action` in place of reading the file that holds `data`."""
    original = quarantine.read_piece

    def read(file: Any) -> bytes:
        piece = original(file)
        return action() if piece == data else piece

    monkeypatch.setattr(quarantine, "read_piece", read)


def logged(out: Path) -> dict[str, str]:
    lines = map(json.loads, (out / ".work" / "run.jsonl").read_text().splitlines())
    return {line["key"]: line["problem"] for line in lines if line["event"] == "not_copied"}


def test_a_file_that_stalls_is_named_and_the_job_is_sealed(
    bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wake = threading.Event()
    fail_reading(monkeypatch, b"<html>2", wake.wait)
    done = shard(bad, tmp_path / "out", max_rejects=ALLOWED, quarantine=tmp_path / "aside", deadline=0.5)
    before = copied(tmp_path / "aside")  # the abandoned thread removes its part file only after it wakes
    wake.set()
    assert done.not_copied == {"cat/2.jpg": "no response within 0.5 s"} == logged(tmp_path / "out")
    assert before == {"1.jpg", "3.jpg"}
    assert any("1 file, the first 'cat/2.jpg': no response" in line for line in as_lines(done))


def test_after_several_stalls_no_further_copies_are_tried(
    bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wake = threading.Event()
    monkeypatch.setattr(quarantine, "MAX_STALLS", 1)
    fail_reading(monkeypatch, b"<html>1", wake.wait)
    done = shard(bad, tmp_path / "out", max_rejects=ALLOWED, quarantine=tmp_path / "aside", deadline=0.5)
    wake.set()
    assert list(done.not_copied) == ["cat/1.jpg", "cat/2.jpg", "cat/3.jpg"]
    assert done.not_copied["cat/3.jpg"] == "not tried, because 1 other files did not respond"


def test_a_file_that_cannot_be_read_is_named_and_the_job_is_sealed(
    bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def read(self, size: int) -> bytes:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    original = quarantine.read_piece
    fail_reading(monkeypatch, b"<html>2", lambda: original(Broken()))  # type: ignore[arg-type]
    done = shard(bad, tmp_path / "out", max_rejects=ALLOWED, quarantine=tmp_path / "aside")
    assert done.not_copied == {"cat/2.jpg": "cannot be read: Input/output error"}
    assert copied(tmp_path / "aside") == {"1.jpg", "3.jpg"}


def test_name_too_long_for_the_quarantine_is_reported_and_the_job_is_sealed(bad: Path, tmp_path: Path) -> None:
    deep = bad / "cat" / ("d" * 200) / ("e" * 200)
    deep.mkdir(parents=True)
    (deep / "4.jpg").write_bytes(b"<html>4")
    aside = tmp_path / "aside"
    while len(str(aside)) < 4096 - 300:  # PATH_MAX
        aside = aside / ("q" * 150)
    done = shard(bad, tmp_path / "out", max_rejects=ALLOWED, quarantine=aside)
    assert list(done.not_copied.values()) == ["cannot be written: File name too long"]
    assert copied(tmp_path / "aside") == {"1.jpg", "2.jpg", "3.jpg"}


def test_fifo_in_place_of_a_rejected_file_is_named(bad: Path, tmp_path: Path) -> None:
    os.mkfifo(bad / "cat" / "4.jpg")
    done = shard(bad, tmp_path / "out", max_rejects=ALLOWED, quarantine=tmp_path / "aside")
    assert done.not_copied == {"cat/4.jpg": "not a regular file"}


def test_full_quarantine_disk_gives_exit_code_75(bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr(os, "makedirs", full)
        with pytest.raises(TryLater, match="the disk is full"):
            shard(bad, tmp_path / "out", max_rejects=ALLOWED, quarantine=tmp_path / "aside")
    assert shard(bad, tmp_path / "out", max_rejects=ALLOWED, quarantine=tmp_path / "aside").not_copied == {}


def test_rejected_job_also_reports_files_that_were_not_copied(bad: Path, tmp_path: Path) -> None:
    os.mkfifo(bad / "cat" / "4.jpg")
    with pytest.raises(DataRejected, match=r"1 of them could not be copied to --quarantine, the first 'cat/4\.jpg'"):
        shard(bad, tmp_path / "out", max_rejects=Budget(1, False), quarantine=tmp_path / "aside")


def test_no_partial_copy_is_left(bad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "aside" / "not_an_image" / "cat" / "2.jpg").mkdir(parents=True)
    done = shard(bad, tmp_path / "out", max_rejects=ALLOWED, quarantine=tmp_path / "aside")
    assert done.not_copied == {"cat/2.jpg": "cannot be written: Is a directory"}
    assert copied(tmp_path / "aside") == {"1.jpg", "3.jpg"}
