"""The count of an LZW stream against streams of Pillow's encoders, and of one that never clears its table."""

import io
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dataprep.images.formats.lzw import LzwCount, count_lzw


def tiff_strip(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "TIFF", compression="tiff_lzw", tiffinfo={278: image.height})
    tags = Image.open(buffer).tag_v2
    assert len(tags[273]) == 1
    return buffer.getvalue()[tags[273][0] : tags[273][0] + tags[279][0]]


def packed(values: list[int], code_bits: int, end: bool = True, clear_first: bool = True) -> bytes:
    """A GIF's stream of these values, whose table is never cleared once it is full."""
    clear = 1 << code_bits
    table = {(value,): value for value in range(clear)}
    codes = [(clear, code_bits + 1)] if clear_first else []
    following, width, prefix = clear + 2, code_bits + 1, ()
    for value in values:
        if (*prefix, value) in table:
            prefix = (*prefix, value)
            continue
        codes.append((table[prefix], width))
        if following < 4096:
            table[(*prefix, value)] = following
            following += 1
            width = min(12, max(width, (following - 1).bit_length()))
        prefix = (value,)
    codes += [(table[prefix], width)] if prefix else []
    width = min(12, max(width, following.bit_length()))
    codes += [(clear + 1, width)] if end else []
    number = at = 0
    for code, bits in codes:
        number |= code << at
        at += bits
    return number.to_bytes((at + 7) // 8, "little")


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(1, 200), st.integers(1, 150), st.integers(1, 256), st.integers(0, 9))
def test_a_tiff_strip_counts_its_pixels(width: int, height: int, values: int, seed: int) -> None:
    noise = random.Random(seed).choices(range(values), k=width * height)
    strip = tiff_strip(Image.frombytes("L", (width, height), bytes(noise)))
    assert count_lzw(strip, 8, most_significant_first=True) == LzwCount(width * height, ended=True)


@pytest.mark.parametrize("code_bits", [2, 4, 8])
@pytest.mark.parametrize("length", [0, 1, 5, 4000, 60_000])
def test_a_stream_that_never_clears_counts_its_pixels(code_bits: int, length: int) -> None:
    values = random.Random(length).choices(range(1 << code_bits), k=length)
    assert count_lzw(packed(values, code_bits), code_bits, False) == LzwCount(length, ended=True)


def test_a_stream_without_its_end_code_is_not_ended() -> None:
    found = count_lzw(packed([1, 2, 3] * 50, 2, end=False), 2, False)
    assert found is not None
    assert not found.ended


def test_a_code_that_is_not_in_the_table_is_broken() -> None:
    assert count_lzw(b"\x04\xff\xff", 8, False) == LzwCount(0, ended=False, broken=True)


def test_a_stream_of_clear_codes_is_not_counted() -> None:
    clear = sum(256 << 9 * i for i in range(8 * 4000)).to_bytes(9 * 4000, "little")
    assert count_lzw(clear, 8, False) is None
