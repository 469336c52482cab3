"""Classification of decoder messages: damage, harmless warnings, and unrelated text."""

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dataprep.build.decode_check.complaints import complaints
from dataprep.images.formats.jpeg_rewrite import bare_jpeg, read_to_end
from dataprep.options import Budget
from schemas.dataset import load_dataset
from tests.dataprep.examples import Files, encoded, picture, shard

EOI = b"\xff\xd9"
JPEG = picture(1)
PNG = picture(1, "PNG")
TABLES = JPEG.index(b"\xff\xdb")
SURPLUS = JPEG[:TABLES] + b"\1\2\3" + JPEG[TABLES:]


def said(data: bytes, line: str) -> list[tuple[str, bool]]:
    """Name and damage of what is found when a decoder prints `line` about `data` and nothing about other data."""
    return [(c.name, c.damage) for c in complaints(data, lambda image: f"{line}\n" if image == data else "")]


@pytest.mark.parametrize(
    "line",
    [
        "Corrupt JPEG data: premature end of data segment",
        "Corrupt JPEG data: bad Huffman code",
        "Corrupt JPEG data: found marker 0xd9 instead of RST3",
        "Premature end of JPEG file",
        "Inconsistent progression sequence for component 0 coefficient 1",
        "Corrupt JPEG data: 7 extraneous bytes before marker 0xd9",
        "Corrupt JPEG data: 7 extraneous bytes before marker 0xc4",
        "Corrupt JPEG data: 7 extraneous bytes before marker 0xda",
        "Corrupt JPEG data: 7 extraneous bytes before marker 0xd3",
        "a text that no release of libjpeg has printed so far",
    ],
)
def test_scan_message_of_libjpeg_is_damage(line: str) -> None:
    assert said(JPEG, line) == [("damaged_jpeg", True)]


@pytest.mark.parametrize(
    ("line", "data", "name"),
    [
        ("Corrupt JPEG data: 3 extraneous bytes before marker 0xdb", SURPLUS, "jpeg_surplus_bytes"),
        ("Corrupt JPEG data: 7 extraneous bytes before marker 0xd9", JPEG[:-2] + bytes(8) + EOI, "jpeg_zero_padding"),
        ("Unknown Adobe color transform code 3", JPEG, "jpeg_adobe_transform"),
        ("Warning: unknown JFIF revision number 2.01", JPEG, "jpeg_jfif_revision"),
        ("Invalid SOS parameters for sequential JPEG", JPEG, "jpeg_scan_parameters"),
        ("libpng warning: iCCP: known incorrect sRGB profile", PNG, "png_iccp"),
        ("libpng warning: IDAT: Extra compressed data", PNG, "png_extra_data"),
        ("libpng warning: tRNS: invalid with alpha channel", PNG, "png_other"),
        ("[ WARN:0@1.2] a text of OpenCV", PNG, "decoder_message"),
    ],
)
def test_message_without_effect_on_pixels_is_a_named_warning(line: str, data: bytes, name: str) -> None:
    assert said(data, line) == [(name, False)]


def test_surplus_bytes_are_harmless_only_at_their_marker() -> None:
    assert said(SURPLUS, "Corrupt JPEG data: 4 extraneous bytes before marker 0xdb") == [("damaged_jpeg", True)]
    assert said(JPEG[:-2] + b"\1" * 8 + EOI, "Corrupt JPEG data: 7 extraneous bytes before marker 0xd9")[0][1]


def test_damage_behind_a_harmless_message_is_found() -> None:
    first = "Corrupt JPEG data: 3 extraneous bytes before marker 0xdb"
    hidden = "Corrupt JPEG data: bad Huffman code"
    found = complaints(SURPLUS, lambda image: first if image == SURPLUS else hidden)
    assert [(c.text, c.damage) for c in found] == [(first, False), (hidden, True)]


def test_message_that_is_not_repeated_does_not_belong_to_the_image() -> None:
    printed = iter(["Corrupt JPEG data: bad Huffman code\n", ""])
    assert complaints(JPEG, lambda _: next(printed)) == []


def test_repeated_line_is_one_complaint() -> None:
    assert len(complaints(PNG, lambda _: "libpng warning: iCCP: too short\n\nlibpng warning: iCCP: too short\n")) == 1


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_sequential_jpeg_gets_up_to_four_components(mode: str) -> None:
    data = encoded(Image.new(mode, (40, 30)), "JPEG")
    frame = data.index(b"\xff\xc0")
    rewritten = read_to_end(data)
    assert rewritten[: frame + 2] == data[: frame + 2]
    assert len(rewritten) - len(data) == {"L": 9, "RGB": 3}[mode]
    assert rewritten[frame + 9] == 4
    assert rewritten.endswith(data[data.index(b"\xff\xda") :])


def cmyk(width: int, height: int, **options: Any) -> bytes:
    """A CMYK JPEG of smooth noise."""
    pixels = random.Random(width).randbytes(4 * -(-width // 4) * -(-height // 4))
    small = Image.frombytes("CMYK", (-(-width // 4), -(-height // 4)), pixels)
    return encoded(small.resize((width, height)), "JPEG", **options)


@pytest.mark.parametrize("options", [{}, {"quality": 30}, {"restart_marker_rows": 1}], ids=str)
@pytest.mark.parametrize("size", [(1, 1), (9, 9), (64, 40), (17, 300), (500, 375)])
def test_a_cmyk_jpeg_with_a_restart_at_its_end_is_the_same_picture_with_an_empty_row(
    size: tuple[int, int], options: dict[str, Any]
) -> None:
    data = cmyk(*size, **options)
    longer, before = Image.open(io.BytesIO(read_to_end(data))), Image.open(io.BytesIO(data))
    assert 8 <= longer.height - before.height < 16
    assert longer.crop((0, 0, *size)).tobytes() == before.tobytes()
    last = longer.crop((0, longer.height - 1, size[0], longer.height))
    assert set(last.tobytes()) == {127}  # a sample of 128, inverted as Adobe's are


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"restart_marker_rows": 1}, {"subsampling": 2}], ids=str)
def test_surplus_data_in_a_cmyk_jpeg_is_found_and_an_intact_one_accepted(
    files: Files, tmp_path: Path, options: dict[str, Any]
) -> None:
    sound = cmyk(500, 375, **options)
    contents = {
        "a/sound.jpg": sound,
        "a/left.jpg": sound[:-2] + b"\x11" * 20 + EOI,
        "a/padded.jpg": sound[:-2] + bytes(20) + EOI,
        "a/hole.jpg": sound[: len(sound) // 2] + sound[len(sound) // 2 + 400 :],
    }
    every = Budget(1, True)
    shard(files(contents), tmp_path / "out", val=0.0, prove="decode", max_rejects=every, max_class_loss=every)
    rejects = [json.loads(line)["key"] for line in (tmp_path / "out" / "rejects.jsonl").read_text().splitlines()]
    assert rejects == ["a/hole.jpg", "a/left.jpg"]
    assert load_dataset(tmp_path / "out").warnings == {"jpeg_zero_padding": 1}


def test_adobe_segment_for_another_number_of_components_is_dropped() -> None:
    data = JPEG[:TABLES] + b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\1" + JPEG[TABLES:]
    assert b"\xff\xfe\0\x0eAdobe" in read_to_end(data)


@pytest.mark.parametrize(
    "data",
    [
        PNG,
        b"",
        b"\xff\xd8",
        b"\xff\xd8\xff",
        b"\xff\xd8\xff\xc0\0",
        b"\xff\xd8\xff\xc0\0\2",
        encoded(Image.new("RGB", (9, 9)), "JPEG", progressive=True),
        encoded(Image.new("CMYK", (9, 9)), "JPEG", progressive=True),
        encoded(Image.new("CMYK", (90, 90)), "JPEG", restart_marker_blocks=7),
        encoded(Image.new("CMYK", (9, 9)), "JPEG").replace(b"\xff\xc0\0\x14", b"\xff\xc0\0\x07"),
    ],
)
def test_other_data_is_decoded_unchanged(data: bytes) -> None:
    assert read_to_end(data) == data


def test_a_bare_jpeg_shows_the_same_picture() -> None:
    exif = Image.Exif()
    exif[0x0112] = 3
    data = encoded(Image.effect_noise((40, 30), 90), "JPEG", exif=exif, comment=b"c" * 99)
    bare = bare_jpeg(data)
    assert len(bare) < len(data)
    assert picture_of(bare) == picture_of(data)
    assert bare_jpeg(bare) == bare


def picture_of(data: bytes) -> bytes:
    return Image.open(io.BytesIO(data)).tobytes()
