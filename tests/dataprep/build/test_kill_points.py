"""Kills at any step, full disks, two jobs, changed input: rows of the fault table in docs/operations.md."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dataprep import pipeline
from dataprep.build import lock, read_ahead, workdir
from dataprep.build.kill_points import STEPS
from dataprep.build.lock import Lock
from dataprep.errors import DataprepError, TryLater
from dataprep.job.existing_set import Existing
from dataprep.options import Budget
from dataprep.plan.store import PlannedItem
from schemas.images.policy import ImageRejected
from tests.dataprep.examples import QUICK, Files, Silent, digests, picture, shard

OPTIONS: dict[str, Any] = {"num_shards": 3, "duplicates": "drop", "max_rejects": Budget(1.0, True)}


@pytest.fixture
def leaky(files: Files) -> Path:
    """Images with a duplicate in val and train, so that shards are excluded from and built again."""
    contents = {f"train/a/{number}.jpg": picture(number) for number in range(9)}
    return files({**contents, "val/a/1.jpg": picture(50), "val/a/2.jpg": picture(4), "val/a/bad.jpg": b"<html>"})


def job(source: Path, out: Path, kill_at: str | None = None) -> "subprocess.CompletedProcess[str]":
    """Run the command with the serial engine, so that every step is in that process."""
    options = ["--num-shards", "3", "--duplicates", "drop", "--max-rejects", "100%", "--max-class-loss", "100%"]
    command = [sys.executable, "-m", "dataprep", "shard", str(source), str(out), "--engine", "serial", "--prove", "off"]
    env = {**os.environ, **({"DATAPREP_KILL_AT": kill_at} if kill_at else {})}
    return subprocess.run([*command, *options], env=env, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_rerun_of_a_job_killed_at_any_step_gives_the_same_bytes(leaky: Path, tmp_path: Path, step: str) -> None:
    shard(leaky, tmp_path / "calm", **OPTIONS)
    out = tmp_path / "killed"
    assert job(leaky, out, step).returncode == -signal.SIGKILL
    again = job(leaky, out)
    assert again.returncode == 0, again.stderr
    assert digests(out) == digests(tmp_path / "calm")
    left = {path.name for path in (out / ".work").iterdir()}
    assert left <= {"lock", "plan.sqlite", "receipts", "run.jsonl", "excluded.json"}


@pytest.mark.parametrize(
    ("number", "error", "message"),
    [
        (errno.ENOSPC, TryLater, "the disk is full"),
        (errno.EDQUOT, TryLater, "the disk quota is used up"),
        (errno.EIO, TryLater, "the disk fails"),
        (errno.EFBIG, DataprepError, "has reached the file-size limit"),
        (errno.EROFS, DataprepError, "cannot write at"),
    ],
)
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_disk_error_is_reported_in_one_sentence_and_the_rerun_resumes(
    raw: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    error: type[Exception],
    message: str,
    call: str,
) -> None:
    calls = iter(range(1000))
    original = getattr(os, call)

    def fail(*args: Any) -> Any:
        if next(calls) > 6:
            raise OSError(number, os.strerror(number))
        return original(*args)

    shard(raw, tmp_path / "calm", num_shards=4)
    with monkeypatch.context() as broken:
        broken.setattr(os, call, fail)
        with pytest.raises(error, match=message):
            shard(raw, tmp_path / "out", num_shards=4)
    assert not (tmp_path / "out" / "dataset.json").exists()
    shard(raw, tmp_path / "out", num_shards=4)
    assert digests(tmp_path / "out") == digests(tmp_path / "calm")


def test_file_size_limit_is_reported_and_leaves_no_partial_shard(files: Files, tmp_path: Path) -> None:
    source = files({f"a/{number}.bmp": os.urandom(9) for number in range(1)})
    noise = os.urandom(300 * 300 * 3)
    from PIL import Image

    Image.frombytes("RGB", (300, 300), noise).save(source / "a" / "large.png")
    command = f"ulimit -f 100; exec {sys.executable} -m dataprep shard {source} {tmp_path}/out --prove off --val 0"
    done = subprocess.run(["bash", "-c", f"{command} --max-rejects 9"], capture_output=True, text=True)
    assert (done.returncode, "file-size limit" in done.stderr) == (1, True)
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "out").glob("train*"))


def test_too_little_space_is_noticed_before_the_first_shard(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10, 9, 1))
    with pytest.raises(TryLater, match="0 MiB free"):
        shard(raw, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.mindrecord*"))


def test_target_that_cannot_be_written_is_reported(raw: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataprepError, match="is not a folder"):
        shard(raw, tmp_path / "file")
    with pytest.raises(DataprepError, match="cannot write to OUT"):
        shard(raw, Path("/proc/nowhere"))


def test_the_lock_of_a_dead_holder_on_this_machine_is_taken_over(tmp_path: Path) -> None:
    code = "import sys, os\nfrom dataprep.build.lock import Lock\nfrom pathlib import Path\n"
    code += "Lock(Path(sys.argv[1])).__enter__()\nos.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "lock")])
    assert json.loads((tmp_path / "lock").read_text())["pid"] > 0
    with Lock(tmp_path / "lock"):
        assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()
    assert (tmp_path / "lock").read_text() == ""


def test_lock_of_another_machine_holds_until_it_is_stale(tmp_path: Path) -> None:
    path = tmp_path / "out" / ".work" / "lock"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"pid": 7, "host": "elsewhere"}))
    with pytest.raises(TryLater, match="is being written by process 7 on elsewhere"), Lock(path):
        pass
    old = time.time() - lock.STALE_S - 1
    os.utime(path, (old, old))
    with Lock(path):
        assert "elsewhere" not in path.read_text()


def test_changed_input_is_rejected_with_the_first_file(raw: Path, sealed: Path) -> None:
    (sealed / "dataset.json").unlink()
    cases: list[tuple[Any, str]] = [
        (lambda: (raw / "cat" / "a_new.jpg").write_bytes(picture(90)), r"'cat/a_new\.jpg' is new"),
        (lambda: (raw / "cat" / "a_new.jpg").unlink(), ""),
        (lambda: (raw / "cat" / "03.jpg").write_bytes(picture(91)), r"'cat/03\.jpg' has changed"),
        (lambda: (raw / "cat" / "01.png").unlink(), r"'cat/01\.png' is gone"),
    ]
    for change, message in cases:
        change()
        if message:
            with pytest.raises(DataprepError, match=message + ".* --restart to start again"):
                shard(raw, sealed, num_shards=3)


def test_rewritten_folder_with_the_same_files_counts_as_unchanged(raw: Path, sealed: Path) -> None:
    before = digests(sealed)
    (sealed / "dataset.json").unlink()
    (raw / "cat" / ".hidden").write_text("x")
    shard(raw, sealed, num_shards=3)
    assert digests(sealed) == before


def test_fixed_files_are_checked_again(raw: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (raw / "cat" / "bad.jpg").write_bytes(b"<html>")
    (raw / "dog" / "gone.jpg").write_bytes(b"")
    first = shard(raw, out, num_shards=4, max_rejects=Budget(2, False))
    assert first.rejected == {"not_an_image": 1, "empty": 1}
    before = digests(out)
    (raw / "cat" / "bad.jpg").write_bytes(picture(99))
    options = replace(QUICK, num_shards=4, max_rejects=Budget(2, False))
    second = pipeline.shard(raw, out, options, Silent(), Existing(retry_rejects=True))
    assert (second.rejected, second.written) == ({"empty": 1}, 41)
    assert 1 <= second.built <= 2
    same = [name for name, data in digests(out).items() if before[name] == data]
    assert len(same) >= 2 * (first.shards - second.built)


def test_retry_without_a_job_is_reported(raw: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(DataprepError, match="has no job with rejected files to check again"):
        pipeline.shard(raw, tmp_path / "out", QUICK, Silent(), Existing(retry_rejects=True))


def test_rejected_files_are_copied_to_the_quarantine_by_reason(raw: Path, tmp_path: Path) -> None:
    (raw / "cat" / "deep").mkdir()
    (raw / "cat" / "deep" / "bad.jpg").write_bytes(b"<html>")
    os.symlink("nowhere", raw / "cat" / "dangling.jpg")
    shard(raw, tmp_path / "out", max_rejects=Budget(2, False), quarantine=tmp_path / "aside")
    copied = {p.relative_to(tmp_path / "aside").as_posix(): p.read_bytes() for p in (tmp_path / "aside").rglob("*.jpg")}
    assert copied == {"not_an_image/cat/deep/bad.jpg": b"<html>"}


def test_a_class_that_loses_too_many_stops_the_job(files: Files, tmp_path: Path) -> None:
    contents = {f"big/{number}.jpg": picture(number) for number in range(50)}
    contents |= {"small/1.jpg": picture(60), "small/2.jpg": picture(61), "small/3.jpg": b"<html>"}
    source = files(contents)
    with pytest.raises(
        DataprepError, match="class 'small' lost 1 of its 3 files, more than --max-class-loss 20% allows"
    ):
        shard(source, tmp_path / "out", max_rejects=Budget(0.1, True))
    assert shard(source, tmp_path / "out", max_rejects=Budget(0.1, True), max_class_loss=Budget(1, False)).written == 52


def test_file_that_cannot_be_read_in_time_is_rejected_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    stalled = threading.Event()
    original = read_ahead.read_item

    def slow_or_read(path: str, *rest: Any) -> Any:
        return stalled.wait() if path == "slow" else original(path, *rest)

    monkeypatch.setattr(read_ahead, "read_item", slow_or_read)
    (tmp_path / "fast").write_bytes(b"x")
    item = PlannedItem("k", 0, 1, (tmp_path / "fast").stat().st_mtime_ns)
    fast = read_ahead.Wanted(str(tmp_path / "fast"), item, 10)
    results = [data for _, data in read_ahead.read_ahead([fast, read_ahead.Wanted("slow", item, 10), fast, fast], 0.05)]
    stalled.set()
    assert results[:1] + results[2:] == [b"x"] * 3
    assert isinstance(results[1], ImageRejected)
    assert results[1].detail == "it could not be read within 0.05 s"


def test_reading_ahead_is_bounded_by_bytes_and_by_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0

    def wanted(size: int) -> Iterator[read_ahead.Wanted]:
        nonlocal taken
        for taken in range(1, 101):  # noqa: B007  counted for the test
            yield read_ahead.Wanted("x", PlannedItem("k", 0, size, 0), 1 << 40)

    monkeypatch.setattr(read_ahead, "read_item", lambda *_: b"x")
    for size, ahead in ((1, read_ahead.READ_AHEAD_FILES), (read_ahead.READ_AHEAD_BYTES, 1)):
        next(read_ahead.read_ahead(wanted(size), 60.0))
        assert taken == ahead


def test_file_without_read_permission_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*args: Any) -> int:
        raise PermissionError(errno.EACCES, "denied")

    monkeypatch.setattr(os, "open", deny)
    with pytest.raises(ImageRejected, match="permission_denied"):
        read_ahead.read_item("x", PlannedItem("k", 0, 1, 0), 10)


def test_files_get_the_group_of_the_folder(raw: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give files to a group it is not in")
    out = tmp_path / "out"
    out.mkdir()
    os.chown(out, -1, 12345)
    shard(raw, out)
    assert {path.stat().st_gid for path in out.iterdir() if path.is_file()} == {12345}


def test_partial_file_never_has_its_final_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "lost")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="lost"):
        workdir.write_whole(tmp_path / "x", b"data")
    assert not (tmp_path / "x").exists()
