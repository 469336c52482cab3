"""Each kind of odd or broken image, from its file in tests/cases/images; cases/make.py says how each was made."""

import io
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dataprep.images.check import normalise
from dataprep.images.formats.jpeg import check_jpeg_container
from dataprep.images.picture import Picture
from dataprep.images.statistics import channel_moments
from schemas.images.policy import ImageRejected, Policy
from tests.dataprep.examples import IMAGES as CASES
from tests.dataprep.examples import encoded

REJECTED = sorted(path for path in (CASES / "rejected").rglob("*") if path.is_file())
ACCEPTED = sorted(p for p in (CASES / "accepted").rglob("*") if p.is_file() and ".expected." not in p.name)
# Off by default, so the cases that need them are rejected only with them.
STRICT = {
    "animated": Policy(animation="reject"),
    "too_small": Policy(min_side=2),
    "extreme_aspect": Policy(max_aspect=10),
}


def case(path: Path) -> str:
    return path.relative_to(CASES).as_posix()


def pixels(picture: Picture) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(picture.data)).convert("RGB")).astype(int)


@pytest.mark.parametrize("path", REJECTED, ids=case)
def test_invalid_image_is_rejected_with_its_reason(path: Path) -> None:
    policy = STRICT.get(path.parent.name, Policy())
    with pytest.raises(ImageRejected) as raised:
        normalise(path.read_bytes(), policy)
    assert raised.value.reason == path.parent.name
    assert raised.value.detail


@pytest.mark.parametrize("path", ACCEPTED, ids=case)
def test_valid_image_keeps_its_visible_pixels(path: Path) -> None:
    expected = np.asarray(Image.open(f"{path}.expected.png").convert("RGB")).astype(int)
    picture = normalise(path.read_bytes(), Policy())
    assert pixels(picture).shape == expected.shape == (picture.height, picture.width, 3)
    difference = np.abs(pixels(picture) - expected)
    if picture.data.startswith(b"\xff\xd8") and path.parent.name == "changed":
        # A re-encoded JPEG.
        assert difference.max() <= 24
        assert difference.mean() <= 3
    else:
        # Rounding of soft transparency differs by one between NumPy and Pillow.
        assert difference.max() <= 1


@pytest.mark.parametrize("path", ACCEPTED, ids=case)
def test_only_necessary_changes_are_made_and_counted(path: Path) -> None:
    data = path.read_bytes()
    picture = normalise(data, Policy())
    assert (picture.data == data) == (path.parent.name == "untouched") == (picture.changed == ())
    assert picture.passed == (path.parent.name in ("untouched", "trimmed"))


@pytest.mark.parametrize("path", ACCEPTED, ids=case)
def test_the_result_is_eight_bit_rgb_or_grey_and_passes_unchanged(path: Path) -> None:
    picture = normalise(path.read_bytes(), Policy())
    image = Image.open(io.BytesIO(picture.data))
    assert image.format in ("JPEG", "PNG")
    assert image.mode in ("RGB", "L")
    assert normalise(picture.data, Policy()).changed == ()


@pytest.mark.slow
def test_the_trainers_decoder_sees_the_same_pixels() -> None:
    from mindspore.dataset import vision

    decode = vision.Decode()
    for path in ACCEPTED:
        picture = normalise(path.read_bytes(), Policy())
        seen = decode(np.frombuffer(picture.data, np.uint8))
        assert np.abs(seen.astype(int) - pixels(picture)).max() <= 1, case(path)


@pytest.mark.parametrize("image_format", ["jpeg", "png"])
@pytest.mark.parametrize("path", ACCEPTED[::5], ids=case)
def test_the_output_format_can_be_chosen(path: Path, image_format: str) -> None:
    picture = normalise(path.read_bytes(), Policy(image_format=image_format))
    assert picture.data.startswith(b"\xff\xd8" if image_format == "jpeg" else b"\x89PNG")


@pytest.mark.parametrize(
    ("size", "expected"), [((100, 50), (20, 10)), ((50, 100), (10, 20)), ((10, 30), (10, 30)), ((9, 9), (9, 9))]
)
def test_resize_shrinks_to_the_short_side_and_never_enlarges(size: tuple[int, int], expected: tuple[int, int]) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", size, (1, 2, 3)).save(buffer, "JPEG")
    picture = normalise(buffer.getvalue(), Policy(resize=10))
    assert (picture.width, picture.height) == expected
    assert ("resized" in picture.changed) == (size != expected)


def test_limits_are_read_from_the_header() -> None:
    data = (CASES / "accepted" / "untouched" / "plain.png").read_bytes()
    for limit, reason in (({"max_pixels": 279}, "too_large"), ({"max_bytes": 50}, "too_large")):
        with pytest.raises(ImageRejected) as raised:
            normalise(data, replace(Policy(), **limit))
        assert raised.value.reason == reason
    assert normalise(data, Policy(max_pixels=280, min_side=14, max_aspect=20 / 14)).width == 20


def test_header_check_decodes_no_pixels() -> None:
    whole = (CASES / "accepted" / "untouched" / "baseline.jpg").read_bytes()
    assert normalise(whole[:-200], Policy(check="header")).data == whole[:-200]
    with pytest.raises(ImageRejected):
        normalise(whole[:100], Policy(check="header"))


def wide_gamut() -> tuple[bytes, bytes]:
    """A profile whose channels are those of sRGB in another order."""
    from PIL import ImageCms

    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    at = {}
    for entry in range(int.from_bytes(profile[128:132], "big")):
        start = 132 + 12 * entry
        at[bytes(profile[start : start + 4])] = start
    red, green = at[b"rXYZ"], at[b"gXYZ"]
    profile[red + 4 : red + 12], profile[green + 4 : green + 12] = (
        profile[green + 4 : green + 12],
        profile[red + 4 : red + 12],
    )
    text = profile.find("sRGB".encode("utf-16-be"))
    while text >= 0:
        profile[text : text + 8] = "mine".encode("utf-16-be")
        text = profile.find("sRGB".encode("utf-16-be"))
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (255, 0, 0)).save(buffer, "PNG", icc_profile=bytes(profile))
    return buffer.getvalue(), bytes(profile)


def test_a_colour_profile_is_ignored_or_converted_by_policy() -> None:
    data, _ = wide_gamut()
    assert normalise(data, Policy()).data == data
    picture = normalise(data, Policy(icc="convert"))
    assert picture.changed == ("icc_converted",)
    assert np.abs(pixels(picture) - [0, 255, 0]).max() <= 3


def test_an_unreadable_profile_is_ignored() -> None:
    data = (CASES / "accepted" / "untouched" / "unreadable_icc.jpg").read_bytes()
    assert normalise(data, Policy(icc="convert")).data == data


def test_equal_pixels_have_equal_digests() -> None:
    def digest(name: str, want_pixels: bool = False) -> bytes:
        return normalise((CASES / "accepted" / name).read_bytes(), Policy(), want_pixels).deciding_bytes()

    plain = digest("untouched/baseline.jpg")
    for name in ("unreadable_exif.jpg", "unreadable_icc.jpg", "wrong_extension.png"):
        assert digest(f"untouched/{name}") == plain
    assert digest("trimmed/junk_after.jpg") == digest("trimmed/film_after.jpg") == plain
    assert digest("untouched/baseline.jpg", want_pixels=True) == plain
    assert digest("untouched/grey.jpg") != plain
    drawn = digest("untouched/plain.png")
    for name in ("plain.bmp", "plain.webp", "orientation_6.png", "orientation_3.tif", "sixteen_bit_rgb.png"):
        assert digest(f"changed/{name}") == drawn


def test_channel_moments_are_the_mean_and_mean_square() -> None:
    values = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    mean, square = channel_moments(Image.fromarray(values))
    flat = values.reshape(-1, 3).astype(float)
    assert mean == pytest.approx(flat.mean(0))
    assert square == pytest.approx((flat**2).mean(0))


MUTABLE = [path.read_bytes() for path in ACCEPTED if path.stat().st_size < 4000]


@settings(max_examples=600, deadline=None, derandomize=True)
@given(st.sampled_from(MUTABLE), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=8), st.floats(0, 1))
def test_any_bytes_give_a_picture_or_are_rejected(data: bytes, edits: list[tuple[float, int]], keep: float) -> None:
    mutated = bytearray(data[: max(1, round(len(data) * (1 - keep * keep)))])
    for place, value in edits:
        mutated[min(len(mutated) - 1, int(place * len(mutated)))] = value
    try:
        picture = normalise(bytes(mutated), Policy(max_pixels=1 << 20))
    except ImageRejected:
        return
    assert pixels(picture).shape == (picture.height, picture.width, 3)


def test_only_the_start_of_a_jpeg_is_read_if_it_is_decoded_later() -> None:
    """Damage far from the start is left to the decode check; damage in the tables is found here."""
    noise = Image.frombytes("RGB", (160, 120), random.Random(0).randbytes(160 * 120 * 3))
    data = bytearray(encoded(noise, "JPEG"))
    scan = check_jpeg_container(bytes(data)).scan
    assert data[scan - 14 : scan - 12] == b"\xff\xda"
    tables = data.index(b"\xff\xc4") + 5
    broken = bytes(data[:tables]) + bytes(16 * [255]) + bytes(data[tables + 16 :])
    with pytest.raises(ImageRejected, match="corrupt"):
        normalise(broken, Policy(), read_later=True)
    assert normalise(bytes(data), Policy(), read_later=True).data == bytes(data)


@pytest.mark.parametrize("behind", [b"\xff\xfe\0\4ab", b"\xff\xc0\0\4ab"])
def test_a_jpeg_with_more_than_one_scan_is_always_read_to_its_end(behind: bytes) -> None:
    """A marker in the middle of a scan silently ends it for MindSpore's decoder; Pillow rejects the file."""
    data = encoded(Image.new("RGB", (64, 64)), "JPEG")
    assert check_jpeg_container(data).scan > 0
    assert check_jpeg_container(data[:-2] + behind + data[-2:]).scan == 0
    assert check_jpeg_container(encoded(Image.new("RGB", (64, 64)), "JPEG", progressive=True)).scan == 0
