"""JPEGs that decode, but whose scans are damaged: only the decoder reports it, on stderr."""

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dataprep.options import Budget
from tests.dataprep.examples import Files, digests, encoded, picture, shard, without_tables

ANY: dict[str, Any] = {"max_rejects": Budget(1.0, True), "max_class_loss": Budget(1.0, True), "prove": "decode"}
SIZES = [(8, 8), (17, 9), (32, 32), (17, 300), (300, 17), (2, 1500), (500, 375), (1100, 900)]
EOI = b"\xff\xd9"


def noise(width: int, height: int, **options: Any) -> bytes:
    """A JPEG whose last rows have as many bytes as all others."""
    pixels = random.Random(width * height).randbytes(3 * width * height)
    return encoded(Image.frombytes("RGB", (width, height), pixels), "JPEG", **options)


def cut(jpeg: bytes, size: int) -> bytes:
    """The last bytes of the scan are missing, but not EOI."""
    return jpeg[: -2 - size] + EOI


def hole(jpeg: bytes, size: int) -> bytes:
    """Bytes are missing near the end of the scan."""
    at = len(jpeg) - 2 * size - 2
    return jpeg[:at] + jpeg[at + size :]


def zeroed(jpeg: bytes, size: int) -> bytes:
    """Bytes near the end of the scan are zero."""
    at = len(jpeg) - 2 * size - 2
    return jpeg[:at] + bytes(size) + jpeg[at + size :]


def rejects(out: Path) -> dict[str, tuple[str, str]]:
    lines = (json.loads(line) for line in (out / "rejects.jsonl").read_text().splitlines())
    return {line["key"]: (line["reason"], line["detail"]) for line in lines}


def warnings(out: Path) -> dict[str, int]:
    counted: dict[str, int] = json.loads((out / "dataset.json").read_text())["warnings"]
    return counted


@pytest.mark.slow
def test_damage_in_the_last_rows_is_found_at_every_size(files: Files, tmp_path: Path) -> None:
    contents = {}
    for width, height in SIZES:
        for kind in ("baseline", "progressive"):
            sound = noise(width, height, progressive=kind == "progressive")
            contents[f"a/sound-{kind}-{width}x{height}.jpg"] = sound
            contents[f"a/cut-{kind}-{width}x{height}.jpg"] = cut(sound, 8)
            # A part of a block that is missing or zero can leave the same number of blocks, which no check detects.
            contents[f"a/hole-{kind}-{width}x{height}.jpg"] = hole(sound, len(sound) // 5)
            contents[f"a/zeroed-{kind}-{width}x{height}.jpg"] = zeroed(sound, len(sound) // 5)
    shard(files(contents), tmp_path / "out", val=0.0, **ANY)
    found = rejects(tmp_path / "out")
    assert sorted(found) == sorted(key for key in contents if "sound" not in key)
    # The smallest lose so many bytes that the check of their scans reports them first.
    assert {reason for reason, _ in found.values()} == {"corrupt", "truncated"}


def rotated(number: int) -> dict[str, Any]:
    exif = Image.Exif()
    exif[0x0112] = 6
    return {"exif": exif} if number % 2 else {}


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"resize": 20}, {"check": "header"}], ids=str)
def test_each_damaged_image_among_many_is_found_even_if_it_is_re_encoded(
    files: Files, tmp_path: Path, options: dict[str, Any]
) -> None:
    contents, damaged = {}, set()
    for number in range(60):
        name = f"a/{number:02d}.jpg"
        contents[name] = noise(64, 40 + number, **rotated(number))
        if number % 9 == 4:
            contents[name] = cut(contents[name], 400)
            damaged.add(name)
    source = files(contents)
    summary = shard(source, tmp_path / "out", val=0.0, num_shards=2, **options, **ANY)
    message = "Corrupt JPEG data: premature end of data segment"
    assert rejects(tmp_path / "out") == dict.fromkeys(damaged, ("corrupt", message))
    assert summary.written == 60 - len(damaged)


@pytest.mark.slow
def test_accepted_damage_and_harmless_warnings_are_counted_the_same_by_each_check(files: Files, tmp_path: Path) -> None:
    sound = noise(40, 30)
    tables = sound.index(b"\xff\xdb")
    surplus = sound[:tables] + b"\1\2\3" + sound[tables:]
    contents = {f"a/{number}.jpg": picture(number) for number in range(50)} | {
        "a/surplus.jpg": surplus,
        "a/padded.jpg": sound[:-2] + bytes(9) + EOI,
        "a/hidden.jpg": cut(surplus, 300),
        "a/tail.jpg": sound[:-400] + bytes(398) + EOI,
        "a/left.jpg": sound[:-2] + b"\1" * 9 + EOI,
    }
    source = files(contents)
    shard(source, tmp_path / "kept", val=0.0, warnings="keep", **ANY)
    assert rejects(tmp_path / "kept") == {}
    assert warnings(tmp_path / "kept") == {"damaged_jpeg": 3, "jpeg_surplus_bytes": 2, "jpeg_zero_padding": 1}
    shard(source, tmp_path / "out", val=0.0, **ANY)
    assert sorted(rejects(tmp_path / "out")) == ["a/hidden.jpg", "a/left.jpg", "a/tail.jpg"]
    assert warnings(tmp_path / "out") == {"jpeg_surplus_bytes": 1, "jpeg_zero_padding": 1}


def png_with_bad_profile() -> bytes:
    """libpng warns about a profile whose length field is too small."""
    buffer = io.BytesIO()
    Image.new("RGB", (9, 9)).save(buffer, "PNG", icc_profile=b"\0" * 200)
    return buffer.getvalue()


@pytest.mark.slow
def test_warnings_are_found_in_a_shard_with_a_crash(files: Files, tmp_path: Path) -> None:
    contents = {f"val/a/{number:02d}.jpg": picture(number) for number in range(20)}
    contents |= {"val/a/05.jpg": without_tables(picture(5)), "val/a/03.jpg": cut(noise(30, 30), 99)}
    contents |= {"val/a/17.png": png_with_bad_profile(), "val/a/16.jpg": cut(noise(30, 30), 90)}
    contents["train/a/1.jpg"] = picture(99)
    shard(files(contents), tmp_path / "out", check="header", **ANY)
    assert {key: reason for key, (reason, _) in rejects(tmp_path / "out").items()} == {
        "val/a/03.jpg": "corrupt",
        "val/a/05.jpg": "decoder_crash",
        "val/a/16.jpg": "corrupt",
    }
    assert warnings(tmp_path / "out") == {"png_iccp": 1}


@pytest.mark.slow
def test_a_dataset_with_warnings_is_the_same_for_any_number_of_workers(files: Files, tmp_path: Path) -> None:
    sound = noise(40, 30)
    kinds = [sound, cut(sound, 200), sound[:-2] + bytes(9) + EOI]
    source = files({f"a/{number}.jpg": kinds[number % 3] for number in range(30)})
    shard(source, tmp_path / "one", num_shards=3, workers=1, **ANY)
    shard(source, tmp_path / "two", num_shards=3, workers=2, engine="process", **ANY)
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
