"""Pixels of more than eight bits: their values in eight bits, warnings, and the options that they need."""

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from dataprep.cli.commands import main
from dataprep.images.check import normalise
from dataprep.images.picture import Picture
from schemas.images.policy import ImageRejected, Policy
from tests.dataprep.examples import encoded
from trainer.feed.picture import Unreadable, read_picture

RAMP = np.tile(np.linspace(0, 1, 64), (4, 1))
TWELVE = (RAMP * 4095).astype(np.uint16)
COLOUR = np.dstack([TWELVE, TWELVE[:, ::-1], TWELVE])


def pixels(picture: Picture) -> np.ndarray[Any, Any]:
    return np.asarray(Image.open(io.BytesIO(picture.data)))


def deep_png(values: np.ndarray[Any, Any]) -> bytes:
    """A 16-bit PNG in colour, with or without alpha."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, channels = values.shape
    header = struct.pack(">IIBBBBB", width, height, 16, {2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        chunk(kind, data) for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    )


def tiff(values: np.ndarray[Any, Any]) -> bytes:
    return encoded(Image.fromarray(values), "TIFF")


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
@pytest.mark.parametrize(("bits", "warned"), [(16, False), (14, True), (12, True), (10, True)])
def test_values_below_a_quarter_of_their_range_are_counted(kind: str, bits: int, warned: bool) -> None:
    values = (RAMP * ((1 << bits) - 1)).astype(np.uint16)
    assert ("low_range_16_bit" in normalise(encoded(Image.fromarray(values), kind), Policy()).warnings) == warned


def planes_tiff(compression: int) -> bytes:
    """12 bits of 16 in three planes, one strip each."""
    strips = [plane.astype("<u2").tobytes() for plane in (TWELVE, TWELVE[:, ::-1], TWELVE)]
    strips = [zlib.compress(strip) if compression == 8 else strip for strip in strips]
    height, width = TWELVE.shape
    lists = 8 + 2 + 12 * 10 + 4
    at = lists + 32
    offsets = [at, at + len(strips[0]), at + len(strips[0]) + len(strips[1])]
    tags = {256: width, 257: height, 258: lists, 259: compression, 262: 2, 273: lists + 8, 277: 3, 278: height}
    tags |= {279: lists + 20, 284: 2}
    entries = b"".join(
        struct.pack("<HHII", tag, 3 if tag == 258 else 4, 3 if tag in (258, 273, 279) else 1, value)
        for tag, value in tags.items()
    )
    values = struct.pack("<4H3I3I", 16, 16, 16, 0, *offsets, *map(len, strips))
    return struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + entries + bytes(4) + values + b"".join(strips)


@pytest.mark.parametrize("compression", [1, 8])
def test_depth_bits_cannot_be_applied_to_separate_planes(compression: int) -> None:
    data = planes_tiff(compression)
    assert np.array_equal(pixels(normalise(data, Policy())), COLOUR >> 8)
    assert np.array_equal(read_picture(data, {}), COLOUR >> 8)
    with pytest.raises(ImageRejected, match="separate planes"):
        normalise(data, Policy(depth_bits=12))
    with pytest.raises(Unreadable, match="depth-bits"):
        read_picture(data, {"depth_bits": 12})


def test_a_black_picture_has_no_low_range_warning() -> None:
    assert normalise(encoded(Image.fromarray(TWELVE * 0), "PNG"), Policy()).warnings == ()


@pytest.mark.parametrize("data", [deep_png(COLOUR), deep_png(np.dstack([COLOUR, np.full_like(TWELVE, 65535)]))])
def test_low_range_of_colour_is_counted_too(data: bytes) -> None:
    assert normalise(data, Policy()).warnings == ("low_range_16_bit",)
    brought = normalise(data, Policy(depth_bits=12))
    assert brought.warnings == ()
    assert np.array_equal(pixels(brought), COLOUR >> 4)


def test_depth_bits_shift_grey_by_depth_bits_minus_eight() -> None:
    for kind in ("PNG", "TIFF"):
        picture = normalise(encoded(Image.fromarray(TWELVE), kind), Policy(depth_bits=12))
        assert np.array_equal(pixels(picture), TWELVE >> 4)
        assert picture.warnings == ()


def test_values_above_depth_bits_are_clipped_and_counted() -> None:
    picture = normalise(encoded(Image.fromarray(TWELVE), "PNG"), Policy(depth_bits=10))
    assert np.array_equal(pixels(picture), (TWELVE >> 2).clip(0, 255))
    assert picture.warnings == ("above_depth_bits",)


def test_depth_bits_cannot_be_applied_to_grey_with_alpha() -> None:
    data = deep_png(np.dstack([TWELVE, TWELVE]))
    with pytest.raises(ImageRejected, match="unsupported_depth"):
        normalise(data, Policy(depth_bits=12))


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.uint16])
def test_a_range_is_mapped_to_eight_bits_and_clipped(dtype: Any) -> None:
    values = (RAMP * 1000).astype(dtype)
    picture = normalise(tiff(values), Policy(depth_range=(200, 800)))
    expected = np.floor((values.astype(float) - 200).clip(0, 600) / 600 * 255 + 0.5)
    assert np.array_equal(pixels(picture), expected)
    assert "depth_range_mapped" in picture.changed


def test_nan_becomes_the_lowest_value_and_is_counted() -> None:
    values = RAMP.astype(np.float32)
    values[0, :] = np.nan
    values[1, :] = np.inf
    picture = normalise(tiff(values), Policy(depth_range=(0, 1)))
    assert pixels(picture)[:2, 0].tolist() == [0, 255]
    assert picture.warnings == ("not_a_number_pixels",)


def test_depth_range_does_not_change_eight_bit_pictures() -> None:
    data = encoded(Image.new("L", (4, 4), 9), "PNG")
    assert normalise(data, Policy(depth_range=(0, 1), depth_bits=12)).data == data


def test_a_picture_without_an_opaque_pixel_is_counted() -> None:
    clear = Image.new("RGBA", (4, 4), (9, 9, 9, 0))
    palette = Image.new("P", (4, 4), 0)
    for data in (
        encoded(clear, "PNG"),
        encoded(clear, "WEBP", lossless=True),
        encoded(clear, "TIFF"),
        encoded(palette, "GIF", transparency=0),
        encoded(palette, "PNG", transparency=0),
    ):
        assert "transparent_everywhere" in normalise(data, Policy()).warnings
    clear.putpixel((0, 0), (9, 9, 9, 1))
    assert normalise(encoded(clear, "PNG"), Policy()).warnings == ()


@pytest.mark.parametrize(
    "words", [["5", "5"], ["5", "1"], ["nan", "1"], ["0", "inf"], ["-1e308", "1e308"], ["0", "1", "--depth-bits", "12"]]
)
def test_an_empty_range_is_wrong_usage(words: list[str]) -> None:
    result = CliRunner().invoke(main, ["shard", "in", "out", "--depth-range", *words])
    assert result.exit_code == 2
    assert "--depth-range" in result.stderr
