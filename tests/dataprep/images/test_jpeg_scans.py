"""A JPEG with incomplete scans is rejected, and no sound JPEG is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dataprep.images.formats.jpeg import check_jpeg_container
from dataprep.images.formats.jpeg_scans import MAX_SCANS, ScanProblem, Scans
from tests.cases.make import ended, jpeg, scan_starts, without_scan
from tests.dataprep.examples import encoded

PROGRESSIVE = jpeg(progressive=True)
SCANS = len(scan_starts(PROGRESSIVE)) - 1
FRAME = bytes([8, 0, 16, 0, 16, 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1])  # 16 x 16, 4:2:0: one unit of 6 blocks


def scan(components: bytes, first: int = 0, last: int = 63, before: int = 0, bit: int = 0) -> bytes:
    names = b"".join(bytes([name, 0]) for name in components)
    return bytes([len(components)]) + names + bytes([first, last, before << 4 | bit])


@pytest.mark.parametrize("number", range(SCANS))
def test_a_progressive_jpeg_without_any_one_of_its_scans_is_rejected(number: int) -> None:
    assert check_jpeg_container(PROGRESSIVE).problem is None
    assert check_jpeg_container(without_scan(PROGRESSIVE, number)).problem


@pytest.mark.parametrize("kept", range(1, SCANS))
def test_a_progressive_jpeg_that_ends_between_scans_is_truncated(kept: int) -> None:
    chain = check_jpeg_container(ended(PROGRESSIVE[: scan_starts(PROGRESSIVE)[kept]]))
    assert chain.problem
    assert chain.reason == "truncated"


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"optimize": True}, {"subsampling": 0}, {"quality": 1}])
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from(["L", "RGB", "CMYK"]), st.integers(0, 255))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_smallest_jpeg_of_one_colour_is_complete(
    options: dict[str, bool | int], width: int, height: int, mode: str, value: int
) -> None:
    """Its blocks have two bits each, the minimum, with custom tables."""
    image = Image.new("L", (width, height), value).convert("RGB").convert(mode)
    data = encoded(image, "JPEG", **options)
    assert check_jpeg_container(data).problem is None
    assert check_jpeg_container(data).end == len(data)


def test_a_large_picture_of_one_colour_is_complete_and_a_larger_one_of_the_same_bytes_is_not() -> None:
    data = encoded(Image.new("RGB", (2000, 2000)), "JPEG", optimize=True)
    assert check_jpeg_container(data).problem is None
    at = data.index(b"\xff\xc0") + 5
    assert check_jpeg_container(data[:at] + (2016).to_bytes(2, "big") + data[at + 2 :]).problem


def test_bytes_are_counted_without_their_stuffing() -> None:
    sound = Scans(0xC0, FRAME)
    sound.add(scan(b"\1\2\3"), b"\x55\x50", 0, 2)
    assert sound.missing() is None
    with pytest.raises(ScanProblem):
        Scans(0xC0, FRAME).add(scan(b"\1\2\3"), b"\xff\0", 0, 2)


def test_a_scan_of_one_component_is_not_padded_to_whole_units() -> None:
    frame = FRAME[:1] + bytes([0, 17, 0, 16]) + FRAME[5:]  # a row more: 2 units, or 6 blocks of the first component
    Scans(0xC0, frame).add(scan(b"\1"), bytes(2), 0, 2)
    with pytest.raises(ScanProblem):
        Scans(0xC0, frame).add(scan(b"\1\2\3"), bytes(2), 0, 2)


def test_components_of_one_name_are_read_in_order() -> None:
    frame = FRAME[:6] + bytes([1, 0x22, 0, 1, 0x11, 1, 1, 0x11, 1])
    scans = Scans(0xC0, frame)
    scans.add(scan(b"\1\1\1"), bytes(2), 0, 2)
    assert scans.missing() is None


@pytest.mark.parametrize(
    "headers",
    [
        [scan(b"\1\2\3", 0, 0), scan(b"\1", 5, 3)],
        [scan(b"\1\2\3", 0, 0), scan(b"\1", 1, 64)],
        [scan(b"\1\2\3", 0, 5)],
        [scan(b"\1\2\3", 0, 0), scan(b"\1\2", 1, 63)],
        [scan(b"\1\2\3", 0, 0, bit=14)],
        [scan(b"\1\2\3", 0, 0, bit=2), scan(b"\1\2\3", 0, 0, before=2, bit=0)],
        [scan(b"\1\2\3", 0, 0, bit=1), scan(b"\1\2\3", 0, 0, before=2, bit=1)],
        [scan(b"\1\2\3", 0, 0), scan(b"\1", 1, 5), scan(b"\1", 5, 63)],
        [scan(b"\1", 1, 63)],
        [scan(b"\1", 0, 0), scan(b"\2", 1, 63)],
        [scan(b"\4", 0, 0)],
        [scan(b"\1\1", 0, 0)],
        [b""],
        [scan(b"\1", 0, 0)[:-1]],
    ],
)
def test_contradicting_scans_are_reported(headers: list[bytes]) -> None:
    *sound, last = headers
    scans = Scans(0xC2, FRAME)
    for header in sound:
        scans.add(header, bytes(9), 0, 9)
    with pytest.raises(ScanProblem):
        scans.add(last, bytes(9), 0, 9)


@pytest.mark.parametrize(
    "frame",
    [b"", FRAME[:-1], FRAME[:5] + b"\4" + FRAME[6:], FRAME[:7] + b"\0" + FRAME[8:], FRAME[:7] + b"\x52" + FRAME[8:]],
)
def test_an_inconsistent_frame_header_is_reported(frame: bytes) -> None:
    with pytest.raises(ScanProblem):
        Scans(0xC0, frame)


def with_scans(headers: list[bytes]) -> Scans:
    scans = Scans(0xC2, FRAME)
    scans.add(scan(b"\1\2\3", 0, 0), bytes(9), 0, 9)
    for header in headers:
        scans.add(header, b"", 0, 0)
    return scans


def test_a_scan_per_coefficient_is_accepted() -> None:
    assert with_scans([scan(bytes([name]), at, at) for at in range(1, 64) for name in (1, 2, 3)]).missing() is None


def test_too_many_scans_are_rejected_even_in_order() -> None:
    """Each has a few bytes and costs time for all blocks of the picture."""
    bits = (0, 3), (3, 2), (2, 1), (1, 0)
    headers = [scan(b"\1", at, at, before, bit) for at in range(1, 64) for before, bit in bits]
    assert with_scans(headers[: MAX_SCANS - 1]).missing()
    with pytest.raises(ScanProblem, match=f"more than {MAX_SCANS} scans"):
        with_scans(headers[:MAX_SCANS])


@pytest.mark.parametrize("wide", [False, True])
def test_a_quantisation_table_with_a_zero_is_corrupt(wide: bool) -> None:
    data = encoded(Image.new("RGB", (16, 16), (9, 90, 200)), "JPEG")
    at = data.index(b"\xff\xdb")
    size = int.from_bytes(data[at + 2 : at + 4], "big")
    values = data[at + 5 : at + 69]
    if wide:  # 16-bit values: a zero byte of one is no zero
        table = b"\x10" + b"".join(b"\0" + bytes([value]) for value in values)
        assert check_jpeg_container(with_table(data, at, size, table)).problem is None
        table = table[:-1] + b"\0"
    else:
        table = b"\0" + values[:-1] + b"\0"
    chain = check_jpeg_container(with_table(data, at, size, table))
    assert chain.problem is not None
    assert "quantisation" in chain.problem
    assert chain.reason == "corrupt"


def with_table(data: bytes, at: int, size: int, table: bytes) -> bytes:
    """The JPEG with `table` instead of the first segment of quantisation tables."""
    return data[:at] + b"\xff\xdb" + (len(table) + 2).to_bytes(2, "big") + table + data[at + 2 + size :]
