"""A shortage of memory, and a decoder that spins: what is the machine's fault, and what is the image's."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, features

from dataprep.build import scheduler, worker
from dataprep.errors import TryLater
from dataprep.images import decoding
from dataprep.images.decoding import decode
from dataprep.options import Budget
from dataprep.sources import peek
from schemas.images.pixels import readable_formats
from schemas.images.policy import ImageRejected, Policy
from schemas.process import memory
from schemas.process.memory import MemoryShortage, has_room, is_shortage
from tests.dataprep.examples import Files, digests, encoded, picture, shard

ANY: dict[str, Any] = {"max_rejects": Budget(1.0, True), "max_class_loss": Budget(1.0, True)}
FORMATS = {
    "JPEG": {},
    "progressive": {"kind": "JPEG", "progressive": True},
    "PNG": {},
    "GIF": {},
    "WEBP": {},
    "lossless": {"kind": "WEBP", "lossless": True},
    "LZW": {"kind": "TIFF", "compression": "tiff_lzw"},
    "deflate": {"kind": "TIFF", "compression": "tiff_adobe_deflate"},
    "BMP": {},
    "PPM": {},
    "JPEG2000": {},
    "AVIF": {},
    "QOI": {},
}
# Decodes argv[1] with each of the further arguments as bytes that may be allocated, and prints what came of it.
LIMITED = """
import os, resource, sys
from dataprep.images.decoding import decode; from schemas.images.policy import Policy, ImageRejected
from schemas.images.pixels import readable_formats
readable_formats()  # as a worker does when it starts
def outcome():
    try:
        return decode(data, Policy()).data.hex()[:40]
    except MemoryError:
        return "shortage"
    except ImageRejected as refusal:
        return refusal.reason
data = open(sys.argv[1], "rb").read()
for room in sys.argv[2:]:
    if os.fork() == 0:
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + int(room),) * 2)
        os.write(1, outcome().encode() + b"\\n")
        os._exit(0)
    os.wait()
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_valid_image_is_never_rejected_for_lack_of_memory(name: str, tmp_path: Path) -> None:
    options: dict[str, Any] = dict(FORMATS[name])
    kind = options.pop("kind", name)
    if kind not in readable_formats():
        pytest.skip(f"this Pillow is built without {kind}")
    photo = Image.linear_gradient("L").resize((1200, 1000)).convert("RGB")
    (tmp_path / "image").write_bytes(encoded(photo, kind, **options))
    rooms = [str(room << 20) for room in (0, 1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 4096)]
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "image"), *rooms]
    outcomes = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert len(outcomes) == len(rooms)
    assert set(outcomes) <= {outcomes[-1], "shortage"}
    assert outcomes[-1] == decode((tmp_path / "image").read_bytes(), Policy()).data.hex()[:40]


@pytest.mark.parametrize("detail", ["broken data stream when reading image file", "could not create decoder object"])
def test_codec_error_rejects_an_image_only_if_memory_is_available(detail: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        try:
            raise OSError(detail)
        except OSError:
            raise ImageRejected("corrupt", detail) from None

    monkeypatch.setattr(decoding, "normalise", refuse)
    with pytest.raises(ImageRejected, match=detail):
        decode(picture(1), Policy())
    monkeypatch.setattr(decoding, "has_room", lambda size: size < 1000)
    with pytest.raises(MemoryError):
        decode(picture(1), Policy())


def test_structural_damage_rejects_an_image_without_memory_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "has_room", lambda size: False)
    with pytest.raises(ImageRejected, match="end-of-image"):
        decode(picture(1)[:-2], Policy())


def test_header_that_announces_more_memory_than_any_machine_has_rejects_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def exhaust(*_: Any, **__: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(Image, "open", exhaust)
    with pytest.raises(ImageRejected, match="out of memory") as refused:
        decode(picture(1), Policy())
    assert refused.value.reason == "corrupt"


@pytest.mark.parametrize(
    ("data", "pixels"),
    [
        (encoded(Image.new("RGB", (30, 20)), "WEBP"), 600),
        (encoded(Image.new("RGB", (30, 20)), "WEBP", lossless=True), 600),
        (encoded(Image.new("RGBA", (30, 20), (1, 2, 3, 4)), "WEBP"), 600),
        (encoded(Image.new("RGB", (30, 20)), "PNG"), 600),
        (b"RIFF\0\0\0\0WEBP", 1),
        (b"text", 0),
    ],
)
def test_pixels_are_known_without_a_codec(data: bytes, pixels: int) -> None:
    assert max(1, decoding.header_pixels(data)) == max(1, pixels)


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow is built without AVIF")
def test_pixels_of_an_avif_are_known_without_its_codec() -> None:
    assert decoding.header_pixels(encoded(Image.new("RGB", (30, 20)), "AVIF")) == 600


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (MemoryShortage("s", None, ""), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), True),
        (RuntimeError("can't start new thread"), True),
        (ImportError("libz.so: failed to map segment from shared object"), True),
        (OSError(errno.ENOSPC, "out of memory"), False),
        (ValueError("no"), False),
    ],
)
def test_shortage_is_distinguished_from_other_errors(error: Exception, expected: bool) -> None:
    assert is_shortage(error) is expected


def test_available_memory_is_what_the_limit_leaves() -> None:
    assert has_room(1 << 20)
    assert not has_room(1 << 60)


def run_out(times: int, where: str) -> Any:
    """A decode that runs out of memory over one file, so many times."""
    left = [times]

    def fail(data: bytes, *rest: Any) -> Any:
        if data == LARGE and left[0]:
            left[0] -= 1
            raise MemoryError(where)
        return decode(data, *rest)

    return fail


LARGE = picture(77)


def test_a_shard_that_met_a_shortage_is_built_again(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (raw / "cat" / "large.jpg").write_bytes(LARGE)
    shard(raw, tmp_path / "calm", num_shards=4)
    monkeypatch.setattr(worker, "decode", run_out(1, "once"))
    shard(raw, tmp_path / "out", num_shards=4)
    assert digests(tmp_path / "out") == digests(tmp_path / "calm")


def test_lasting_shortage_ends_the_job_and_seals_nothing(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (raw / "cat" / "large.jpg").write_bytes(LARGE)
    monkeypatch.setattr(worker, "decode", run_out(9, "for ever"))
    with pytest.raises(TryLater, match=r"alone, at 'cat/large\.jpg' \(for ever\); raise the limit"):
        shard(raw, tmp_path / "out", num_shards=4)
    assert not (tmp_path / "out" / "dataset.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["serial", "process"])
@pytest.mark.parametrize("mebibytes", [60, 200, 400, 700])
def test_under_a_limit_a_job_ends_with_the_same_set_or_one_sentence(
    raw: Path, tmp_path: Path, engine: str, mebibytes: int
) -> None:
    (raw / "cat" / "wide.webp").write_bytes(encoded(Image.new("RGB", (3000, 2000), (9, 90, 200)), "WEBP"))
    limits = (mebibytes << 20,) * 2
    command = [sys.executable, "-m", "dataprep", "shard", str(raw), str(tmp_path / "out"), "--prove", "off", "-q"]
    done = subprocess.run(
        [*command, "--engine", engine, "--workers", "2", "--num-shards", "3"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limits),
        env={**os.environ, "OPENBLAS_NUM_THREADS": "2"},  # by default OpenBLAS takes address space for every core
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode == 0:
        assert (tmp_path / "out" / "rejects.jsonl").read_text() == ""
        return
    assert done.returncode in (1, 75)
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out" / "dataset.json").exists()


SLOW = b"an image on which a decoder spins"


def decode_slowly(data: bytes, *rest: Any) -> Any:
    """A decoder that spins in C, in one call that keeps the interpreter's lock."""
    if data == SLOW:
        sum(range(1 << 40))
    return decoding.decode(data, *rest)


def build_slowly(task: Any) -> Any:
    worker.decode = decode_slowly  # type: ignore[attr-defined]
    return worker.build_shard(task)


def rejected(out: Path) -> dict[str, str]:
    lines = (json.loads(line) for line in (out / "rejects.jsonl").read_text().splitlines())
    return {line["key"]: line["reason"] for line in lines}


@pytest.mark.slow
def test_an_image_on_which_two_workers_have_spent_the_deadline_is_rejected(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (raw / "cat" / "slow.jpg").write_bytes(SLOW)
    (raw / "dog" / "slow.jpg").write_bytes(SLOW)
    monkeypatch.setattr(scheduler, "build_shard", build_slowly)
    options: dict[str, Any] = {"num_shards": 2, **ANY}
    summary = shard(raw, tmp_path / "out", engine="process", workers=2, deadline=0.3, **options)
    assert rejected(tmp_path / "out") == {"cat/slow.jpg": "decode_timeout", "dog/slow.jpg": "decode_timeout"}
    assert summary.written == 40


def test_the_serial_engine_interrupts_a_decoder_that_returns_to_python(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (raw / "cat" / "slow.jpg").write_bytes(SLOW)

    def spin(data: bytes, *rest: Any) -> Any:
        while data == SLOW:
            zlib.crc32(data)
        return decode(data, *rest)

    monkeypatch.setattr(worker, "decode", spin)
    before = signal.getsignal(signal.SIGVTALRM)
    shard(raw, tmp_path / "out", deadline=0.2, **ANY)
    assert rejected(tmp_path / "out") == {"cat/slow.jpg": "decode_timeout"}
    assert signal.getsignal(signal.SIGVTALRM) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_stopped_worker_does_not_exceed_the_deadline(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait_and_decode(*args: Any) -> Any:
        signal.sigtimedwait([], 0.3)  # wall time passes, CPU time does not
        return decode(*args)

    monkeypatch.setattr(worker, "decode", wait_and_decode)
    assert shard(files({"a/1.jpg": picture(1)}), tmp_path / "out", deadline=0.2, val=0.0).written == 1


def test_the_scan_waits_for_a_file_no_longer_than_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text").write_bytes(b"no image")
    asleep, wake = os.pipe()

    def head(path: str) -> bytes:
        if path == "stalled":
            os.read(asleep, 1)
        return original(path)

    original = peek.read_head
    monkeypatch.setattr(peek, "read_head", head)
    assert peek.opens_as_image(b"stalled", 0.05)
    assert not peek.opens_as_image(os.fsencode(tmp_path / "text"))
    os.close(wake)


def test_the_scan_does_not_wait_for_a_fifo_that_took_a_file_s_place(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert not peek.opens_as_image(os.fsencode(tmp_path / "fifo"))


def test_shortage_in_the_scan_does_not_reject_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> bytes:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(peek, "read_head", fail)
    with pytest.raises(OSError, match="Cannot allocate"):
        peek.opens_as_image(b"any")


def test_thread_start_without_memory_raises_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "has_room", lambda size: False)
    with pytest.raises(MemoryError, match="can't start new thread"):
        memory.demand_threads(1)


def test_command_reports_a_shortage_in_one_sentence(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from dataprep import pipeline
    from dataprep.cli.commands import main

    def fail(*_: Any) -> Any:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(pipeline, "build_missing", fail)
    ended = CliRunner().invoke(main, ["shard", str(files({"a/1.jpg": picture(1)})), str(tmp_path / "out")])
    assert ended.exit_code == 75
    assert "could not be allocated" in ended.stderr
    assert ended.stderr.count("Error: ") == 1
