"""Data that is not part of a picture is dropped from the stored file; the rest is unchanged byte for byte."""

import io
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dataprep.images.check import normalise
from schemas.images.policy import ImageRejected, Policy
from tests.cases.make import RGB, SIZE, chunk, exif, interlaced_png, jpeg, mpo, plain_png, png
from tests.dataprep.examples import encoded, picture, shard
from tests.examples import ROOT

CASES = ROOT / "tests" / "cases" / "images" / "accepted"
FILM = b"\0\0\0\x18ftypmp42\0\0\0\0isommp42" + bytes(range(256)) * 40
STRIP = Policy(strip_metadata=True)
WHOLE = jpeg()


def segment(marker: int, body: bytes) -> bytes:
    return b"\xff" + bytes([marker]) + struct.pack(">H", len(body) + 2) + body


def behind_start(data: bytes, *segments: bytes) -> bytes:
    return data[:2] + b"".join(segments) + data[2:]


EXIF = segment(0xE1, b"Exif\0\0" + exif(1))
PROFILE = segment(0xE2, b"ICC_PROFILE\0\1\1" + bytes(40))
ADOBE = segment(0xEE, b"Adobe\0\x64\0\0\0\0\1")
EXTRAS = [
    EXIF,
    segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>"),
    segment(0xE0, b"JFXX\0\x10thumbnail"),
    segment(0xE2, b"MPF\0II*\0"),
    segment(0xEB, b"JP\0\0c2pa"),
    segment(0xED, b"Photoshop 3.0\0caption"),
    segment(0xEE, b"other"),
    segment(0xFE, b"a comment"),
]


@pytest.mark.parametrize("check", ["decode", "header"])
@pytest.mark.parametrize("trailer", [FILM, b"\0", b"\n", WHOLE, b"\xff\xd9", b"\xff\xd8\xff\xe1"])
@pytest.mark.parametrize("data", [WHOLE, jpeg(progressive=True), plain_png(), behind_start(WHOLE, EXIF)])
def test_data_after_the_end_of_the_image_is_dropped(data: bytes, trailer: bytes, check: str) -> None:
    stored = normalise(data + trailer, Policy(check=check))
    assert (stored.data, stored.changed) == (data, ("trailer_dropped",))
    assert normalise(data, Policy(check=check)).data is data


def test_end_markers_inside_a_segment_or_text_are_ignored() -> None:
    commented = behind_start(WHOLE, segment(0xFE, b"\xff\xd9 \xff\xda"))
    text = plain_png(0, chunk(b"tEXt", b"a\0IEND\xae\x42\x60\x82"))
    for data in (commented, text):
        for check in ("decode", "header"):
            assert normalise(data, Policy(check=check)).data is data
            assert normalise(data + FILM, Policy(check=check)).data == data


def test_the_index_of_dropped_pictures_is_dropped() -> None:
    """Pillow would open the rest as an MPO that lacks a frame."""
    data = mpo()
    stored = normalise(data, Policy())
    assert stored.changed == ("trailer_dropped",)
    opened = Image.open(io.BytesIO(stored.data))
    assert opened.format == "JPEG"
    assert np.array_equal(opened, Image.open(io.BytesIO(data)))
    assert b"MPF\0" in data
    assert b"MPF\0" not in stored.data


@pytest.mark.parametrize("check", ["decode", "header"])
def test_stripping_keeps_the_colour_data_of_a_jpeg(check: str) -> None:
    policy = replace(STRIP, check=check)
    data = behind_start(WHOLE, *EXTRAS, ADOBE, PROFILE)
    assert WHOLE[2:].startswith(b"\xff\xe0\0\x10JFIF\0")
    stored = normalise(data, policy)
    assert (stored.data, stored.changed) == (behind_start(WHOLE, ADOBE, PROFILE), ("metadata_stripped",))
    assert normalise(stored.data, policy).data is stored.data
    assert normalise(data + FILM, policy).changed == ("trailer_dropped", "metadata_stripped")
    assert normalise(data + FILM, policy).data == stored.data


def test_stripping_removes_comments_between_scans_and_thumbnails_in_jfif() -> None:
    late = WHOLE[:-2] + segment(0xFE, b"late") + WHOLE[-2:]
    assert normalise(late, STRIP).data == WHOLE
    jfif = WHOLE[:2] + segment(0xE0, WHOLE[6:18] + b"\1\1abc") + WHOLE[20:]
    assert normalise(jfif, Policy()).data == jfif
    assert normalise(jfif, STRIP).data == WHOLE


@pytest.mark.parametrize("check", ["decode", "header"])
def test_stripping_keeps_the_colour_data_of_a_png(check: str) -> None:
    meant = chunk(b"gAMA", bytes(4)), chunk(b"pHYs", bytes(9))
    extras = [
        chunk(b"eXIf", exif(1)[6:]),
        chunk(b"tEXt", b"a\0b"),
        chunk(b"iTXt", b"a\0\0\0\0\0b"),
        chunk(b"tIME", bytes(7)),
        chunk(b"caBX", b"c2pa"),
    ]
    stored = normalise(plain_png(0, extras[0], meant[0], *extras[1:], meant[1]), replace(STRIP, check=check))
    assert (stored.data, stored.changed) == (plain_png(0, *meant), ("metadata_stripped",))


def test_the_exif_orientation_is_applied_before_stripping() -> None:
    stored = normalise((CASES / "changed" / "orientation_6.jpg").read_bytes(), STRIP)
    assert stored.changed == ("exif_rotated",)
    assert (stored.width, stored.height) == SIZE
    assert b"Exif" not in stored.data


def test_a_file_with_other_metadata_is_a_duplicate(tmp_path: Path) -> None:
    for check in ("decode", "header"):
        for strip in (False, True):
            source, out = tmp_path / f"raw-{check}-{strip}", tmp_path / f"out-{check}-{strip}"
            (source / "a").mkdir(parents=True)
            for name, data in (("1", picture(1)), ("2", picture(1) + FILM), ("3", behind_start(picture(1), EXIF))):
                (source / "a" / f"{name}.jpg").write_bytes(data)
            summary = shard(source, out, check=check, strip_metadata=strip, val=0)
            assert summary.changed["trailer_dropped"] == 1
            assert summary.changed.get("metadata_stripped", 0) == strip
            keys = (out / "duplicates.jsonl").read_text()
            assert '"a/1.jpg"' in keys
            assert '"a/2.jpg"' in keys
            assert ('"a/3.jpg"' in keys) == (check == "decode" or strip)


def test_metadata_that_was_not_stripped_is_stored() -> None:
    data = behind_start(WHOLE, *EXTRAS)
    assert normalise(data, Policy()).data is data


def test_no_more_data_is_inflated_than_the_image_size_requires() -> None:
    """The pixels are followed by 200 MB of zeros and then damage, which is not read."""
    packer = zlib.compressobj(9)
    rows = b"".join(b"\0" + row.tobytes() for row in RGB)
    body = packer.compress(rows) + b"".join(packer.compress(bytes(1 << 20)) for _ in range(200))
    data = plain_png()
    header = data[8:33]
    bomb = data[:8] + header + chunk(b"IDAT", body + b"damage") + data[-12:]
    stored = normalise(bomb, Policy())
    assert (stored.changed, stored.warnings) == (("recoded",), ("png_extra_data",))
    assert np.array_equal(Image.open(io.BytesIO(stored.data)), RGB)


@given(st.integers(1, 20), st.integers(1, 20))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_interlaced_pictures_of_any_size_have_all_their_pixels(width: int, height: int) -> None:
    pixels = np.arange(width * height * 3, dtype=np.uint8).reshape(height, width, 3)
    data = interlaced_png(pixels)
    assert normalise(data, Policy()).data is data
    with pytest.raises(ImageRejected) as raised:
        normalise(interlaced_png(pixels, rows_lost=1), Policy())
    assert raised.value.reason == "truncated"


@pytest.mark.parametrize(("depth", "colour", "row"), [(1, 0, 2), (2, 3, 3), (4, 0, 5), (16, 2, 60), (8, 4, 20)])
def test_rows_are_counted_in_whole_bytes(depth: int, colour: int, row: int) -> None:
    header = struct.pack(">IIBBBBB", 10, 3, depth, colour, 0, 0, 0)
    palette = [chunk(b"PLTE", bytes(12))] if colour == 3 else []
    whole, more = (png(header, bytes(3 * (1 + row) + surplus), *palette) for surplus in (0, 1))
    assert "png_extra_data" not in normalise(whole, Policy()).warnings
    assert "png_extra_data" in normalise(more, Policy()).warnings


@pytest.mark.parametrize("sampling", [0, 1, 2])
@pytest.mark.parametrize("orientation", [3, 6])
def test_a_re_encoded_jpeg_keeps_its_chroma_subsampling(sampling: int, orientation: int) -> None:
    from PIL.JpegImagePlugin import get_sampling

    data = encoded(Image.fromarray(RGB), "JPEG", subsampling=sampling, exif=exif(orientation))
    stored = Image.open(io.BytesIO(normalise(data, Policy()).data))
    # Half width turned is half height, which Pillow cannot write: all colour is kept.
    assert get_sampling(stored) == (0 if sampling == 1 and orientation == 6 else sampling)


def test_cmyk_is_not_subsampled() -> None:
    stripes = np.zeros((32, 32, 4), np.uint8)
    stripes[:, ::2, 0] = stripes[:, 1::2, 1] = 255
    data = encoded(Image.fromarray(stripes, "CMYK"), "JPEG", quality=100)
    seen = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
    stored = np.asarray(Image.open(io.BytesIO(normalise(data, Policy()).data))).astype(int)
    assert np.abs(stored - seen).max() <= 24


@pytest.mark.parametrize(
    "data",
    [
        WHOLE[:2] + b"\xff" * (2 << 20) + WHOLE[2:],
        WHOLE[:2] + b"\xff\0" * (1 << 20) + WHOLE[2:],
        WHOLE[:2] + segment(0xFE, b"") * 60_000 + WHOLE[2:],
        plain_png()[:33] + chunk(b"IDAT", b"") * 210_000 + plain_png()[33:],
    ],
    ids=["fill", "junk", "segments", "chunks"],
)
def test_file_that_is_crafted_to_be_slow_is_rejected(data: bytes) -> None:
    with pytest.raises(ImageRejected) as raised:
        normalise(data, Policy())
    assert raised.value.reason == "corrupt"


def test_many_compressed_text_bombs_are_dropped() -> None:
    bomb = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(1 << 20), 9))
    assert normalise(plain_png(0, *[bomb] * 3000), Policy()).changed == ("chunk_dropped",)


def test_first_texts_are_kept_if_there_are_too_many_for_decoders() -> None:
    stored = normalise(plain_png(0, *[chunk(b"tEXt", b"a\0b")] * 501), Policy())
    assert stored.data == plain_png(0, *[chunk(b"tEXt", b"a\0b")] * 500)
