"""Crashes, hangs and errors of workers and of the trainer's decoder."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from dataprep.build import scheduler, worker
from dataprep.build.decode_check import supervisor
from dataprep.errors import DataprepError
from dataprep.options import Budget
from dataprep.tools.verify import verify
from tests.dataprep.examples import DEADLY, Files, die_over_an_image, digests, encoded, picture, shard, without_tables

ANY: dict[str, Any] = {"max_rejects": Budget(1.0, True), "max_class_loss": Budget(1.0, True)}


def rejected(out: Path) -> dict[str, str]:
    lines = (json.loads(line) for line in (out / "rejects.jsonl").read_text().splitlines())
    return {line["key"]: line["reason"] for line in lines}


def bad_zlib(size: int) -> bytes:
    """A PNG whose chunks and checksums are right, and whose compressed pixels are not."""
    import zlib

    from PIL import Image

    data = encoded(Image.new("RGB", (size, size), (9, 9, 9)), "PNG")
    at = data.index(b"IDAT")
    length = int.from_bytes(data[at - 4 : at], "big")
    body = b"IDAT" + data[at + 4 : at + 14] + bytes(length - 10)
    return data[:at] + body + zlib.crc32(body).to_bytes(4, "big") + data[at + 4 + length + 4 :]


@pytest.mark.slow
def test_image_that_crashes_or_fails_the_decoder_is_the_only_reject(files: Files, tmp_path: Path) -> None:
    # In val, where no image is measured: with --check header nothing but the decoder meets the broken parts.
    contents = {f"val/a/{number:02d}.jpg": picture(number) for number in range(30)}
    contents["val/a/07.jpg"] = without_tables(picture(7))
    contents["val/a/11.png"] = bad_zlib(40)
    contents["val/a/19.jpg"] = without_tables(picture(19))
    contents["train/a/x.jpg"] = picture(99)
    contents["train/a/y.jpg"] = b""  # of two train shards one stays without a row
    summary = shard(files(contents), tmp_path / "out", check="header", prove="decode", num_shards=2, **ANY)
    assert rejected(tmp_path / "out") == {
        "train/a/y.jpg": "empty",
        "val/a/07.jpg": "decoder_crash",
        "val/a/11.png": "decoder_error",
        "val/a/19.jpg": "decoder_crash",
    }
    assert summary.splits == {"train": 1, "val": 28}
    assert verify(tmp_path / "out").problems == []
    assert {path.name for path in tmp_path.iterdir()} == {"out", "raw"}


@pytest.mark.slow
def test_decode_check_with_more_workers_than_cores(files: Files, tmp_path: Path) -> None:
    source = files({f"a/{number}.jpg": picture(number) for number in range(6)})
    summary = shard(source, tmp_path / "out", prove="decode", workers=(os.cpu_count() or 1) + 3, val=0.0)
    assert summary.written == 6


FAKE = """
import json, os, signal, sys, time
def say(**values): print(json.dumps(values), flush=True)
say(ready=True)
for line in sys.stdin:
    request = json.loads(line)
    keys = [json.loads(row)[0] for row in open(request["rows"])]
    for number, key in enumerate(keys):
        if number < request["first"] or 0 <= request["last"] < number:
            continue
        say(row=number)
        if "crash" in key: os.kill(os.getpid(), signal.SIGSEGV)
        if "hang" in key: signal.pause()
        if "wrong" in key: say(wrong="row 0 reads as nonsense")
    say(done=True)
"""


@pytest.fixture
def fake_decoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that crashes, hangs or gives wrong answers, depending on the name of a file."""
    (tmp_path / "fake.py").write_text(FAKE)
    original = supervisor.DecodeChecker.__init__

    def start(self: supervisor.DecodeChecker, *args: Any) -> None:
        original(self, *args, command=(sys.executable, str(tmp_path / "fake.py")))

    monkeypatch.setattr(supervisor.DecodeChecker, "__init__", start)


@pytest.mark.slow
@pytest.mark.usefixtures("fake_decoder")
def test_every_undecodable_image_is_found_and_the_others_are_kept(files: Files, tmp_path: Path) -> None:
    names = [f"a/{number}{'crash' * (number in (3, 4))}{'hang' * (number == 9)}.jpg" for number in range(12)]
    source = files({name: picture(number) for number, name in enumerate(names)})
    summary = shard(source, tmp_path / "out", prove="decode", deadline=0.5, **ANY)
    assert rejected(tmp_path / "out") == {
        "a/3crash.jpg": "decoder_crash",
        "a/4crash.jpg": "decoder_crash",
        "a/9hang.jpg": "decoder_hang",
    }
    assert summary.written == 9


@pytest.mark.usefixtures("fake_decoder")
def test_shard_that_does_not_read_back_as_written_ends_the_job(files: Files, tmp_path: Path) -> None:
    source = files({"a/wrong.jpg": picture(0)})
    with pytest.raises(DataprepError, match="does not read back as written: row 0 reads as nonsense"):
        shard(source, tmp_path / "out", prove="decode", val=0.0)
    assert not (tmp_path / "out" / "train.mindrecord0").exists()


def test_decoder_that_cannot_start_is_reported(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = supervisor.DecodeChecker.__init__

    def start(self: supervisor.DecodeChecker, *args: Any) -> None:
        original(self, *args, command=("false",))

    monkeypatch.setattr(supervisor.DecodeChecker, "__init__", start)
    with pytest.raises(DataprepError, match="MindSpore cannot be started for the decode check"):
        shard(files({"a/1.jpg": picture(0)}), tmp_path / "out", prove="decode", val=0.0)


def die_once(task: Any) -> Any:
    marker = Path(task.source) / "died"
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return worker.build_shard(task)


@pytest.mark.slow
def test_file_that_killed_two_workers_is_named(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (raw / "cat" / "large.jpg").write_bytes(DEADLY)
    monkeypatch.setattr(scheduler, "build_shard", die_over_an_image)
    with pytest.raises(DataprepError, match=r"2 worker processes were killed .* at 'cat/large\.jpg'"):
        shard(raw, tmp_path / "out", engine="process", workers=2, num_shards=4)


@pytest.mark.slow
def test_shard_whose_worker_was_killed_once_is_built_again(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard(raw, tmp_path / "calm", num_shards=4)
    monkeypatch.setattr(scheduler, "build_shard", die_once)
    shard(raw, tmp_path / "out", engine="process", workers=2, num_shards=4)
    assert digests(tmp_path / "out") == digests(tmp_path / "calm")


def test_failed_job_leaves_no_child_process(files: Files, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="lost"):
        shard(files({"a/1.jpg": picture(0)}), tmp_path / "out", prove="decode", val=0.0, engine="broken")


@pytest.fixture(autouse=True)
def broken_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import contextmanager

    @contextmanager
    def broken(*_: Any) -> Any:
        raise OSError("lost")
        yield

    monkeypatch.setitem(scheduler.ENGINES, "broken", broken)
