"""The trainer reads the pixels of a file that dataprep would have stored, up to JPEG's loss."""

import io
import subprocess
import sys
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataprep.images.check import normalise
from schemas.images.policy import ImageRejected, Policy
from tests.cases.make import chunk
from tests.examples import ROOT
from trainer.feed.picture import Unreadable, read_picture

SIDE = 24


def colours(mode: str = "RGB", width: int = SIDE, height: int = 16) -> Image.Image:
    ramp = np.linspace(0, 255, width * height * 4).reshape(height, width, 4).astype(np.uint8)
    ramp[..., 3] = np.where(np.arange(width) < width // 2, 0, 200)
    return Image.fromarray(ramp).convert(mode) if mode != "RGBA" else Image.fromarray(ramp)


def coded(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def turned(angle: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = angle
    return exif


def deep() -> Image.Image:
    return Image.fromarray((np.arange(SIDE * 16).reshape(16, SIDE) * 150).astype(np.uint16))


# Chunks that pixels do not need, and over which Pillow rejects the image.
LARGE = zlib.compress(bytes(3 << 20), 9)
TRIPPING = {
    "a large text": (b"zTXt", b"a\0\0" + LARGE),
    "a large profile": (b"iCCP", b"a\0\0" + LARGE),
    "a short resolution": (b"pHYs", b"a"),
    "a damaged text": (b"tEXt", b"a\0b", 1),
}


def with_chunk(kind: bytes, body: bytes, wrong: int = 0) -> bytes:
    data = coded(colours(), "PNG")
    return data[:33] + chunk(kind, body, wrong) + data[33:]


CASES = ROOT / "tests" / "cases" / "images" / "accepted" / "changed"
DEEP = {
    **{path.name: path.read_bytes() for path in sorted(CASES.glob("*_bit_*")) + sorted(CASES.glob("*_bit*.tif"))},
    "int32": coded(Image.fromarray(np.arange(-200, 184, dtype=np.int32).reshape(16, SIDE)), "TIFF"),
    "float": coded(Image.fromarray(np.linspace(-1, 5000, SIDE * 16).reshape(16, SIDE).astype(np.float32)), "TIFF"),
    "float with gaps": coded(Image.fromarray(np.full((16, SIDE), np.nan, np.float32)), "TIFF"),
    "12 of 16 bits": coded(Image.fromarray((np.arange(SIDE * 16).reshape(16, SIDE) * 10).astype(np.uint16)), "PNG"),
    "16 bit with a transparent value": coded(deep(), "PNG", transparency=300),
}
FILES = {
    "jpeg": coded(colours(), "JPEG"),
    "grey jpeg": coded(colours("L"), "JPEG"),
    "cmyk jpeg": coded(colours("CMYK"), "JPEG"),
    **{f"orientation {angle}": coded(colours(), "PNG", exif=turned(angle)) for angle in range(1, 9)},
    "tiff orientation 6": coded(colours(), "TIFF", exif=turned(6)),
    "jpeg and a film": coded(colours(), "JPEG", quality=95) + b"\0\0\0\x18ftypmp42" + bytes(500),
    "png and a film": coded(colours(), "PNG") + b"\0\0\0\x18ftypmp42" + bytes(500),
    **{f"png with {what}": with_chunk(*extra) for what, extra in TRIPPING.items()},
    "rgba png": coded(colours("RGBA"), "PNG"),
    "grey and alpha": coded(colours("LA"), "PNG"),
    "palette": coded(colours("P"), "PNG"),
    "transparent palette": coded(colours("P"), "PNG", transparency=3),
    "transparent colour": coded(colours(), "PNG", transparency=(0, 1, 2)),
    "bilevel": coded(colours("1"), "PNG"),
    "16 bit": coded(deep(), "PNG"),
    "animation": coded(colours(), "GIF", save_all=True, append_images=[colours("L").convert("RGB")]),
    "webp": coded(colours("RGBA"), "WEBP", lossless=True),
    "bmp": coded(colours(), "BMP"),
    "ppm": coded(colours(), "PPM"),
}


def sealed(data: bytes, policy: Policy) -> np.ndarray[Any, Any]:
    return np.asarray(Image.open(io.BytesIO(normalise(data, policy).data)).convert("RGB"))


@pytest.mark.parametrize("policy", [Policy(), Policy(resize=10)], ids=["as it is", "shrunk"])
@pytest.mark.parametrize("name", FILES)
def test_pixels_equal_those_that_dataprep_stores(name: str, policy: Policy) -> None:
    found, expected = read_picture(FILES[name], asdict(policy)), sealed(FILES[name], policy)
    assert (found.shape, found.dtype) == (expected.shape, np.uint8)
    # A changed JPEG is encoded again: a few steps of brightness.
    recoded = name == "cmyk jpeg" or (policy.resize and "jpeg" in name)
    assert np.abs(found.astype(int) - expected).max() <= (12 if recoded else 0)


@pytest.mark.parametrize(
    "policy",
    [Policy(), Policy(depth_bits=12), Policy(depth_bits=9, resize=10), Policy(depth_range=(-100, 4000.5))],
    ids=["as it is", "12 bits", "9 bits, shrunk", "range"],
)
@pytest.mark.parametrize("name", DEEP)
def test_deep_pixels_equal_those_that_dataprep_stores_or_are_rejected_too(name: str, policy: Policy) -> None:
    try:
        expected = sealed(DEEP[name], policy)
    except ImageRejected:
        with pytest.raises(Unreadable):
            read_picture(DEEP[name], asdict(policy))
        return
    assert np.array_equal(read_picture(DEEP[name], asdict(policy)), expected)


ACCEPTED = sorted(p for p in CASES.parent.rglob("*") if p.is_file() and ".expected." not in p.name)


@pytest.mark.parametrize("policy", [Policy(), Policy(resize=10, icc="convert")], ids=["default", "resized"])
@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.name)
def test_pixels_of_each_accepted_case_equal_those_that_dataprep_encodes(path: Path, policy: Policy) -> None:
    picture = normalise(path.read_bytes(), policy, want_pixels=True)
    assert picture.image is not None
    assert np.array_equal(read_picture(path.read_bytes(), asdict(policy)), picture.image.convert("RGB"))


REJECTED = CASES.parents[1] / "rejected" / "unsupported_format"


@pytest.mark.parametrize("name", ["raw.nef", "raw.dng", "raw.cr2", "thumbnail_first.tif"])
def test_unsupported_kinds_of_tiff_are_rejected_with_the_detail_of_dataprep(name: str) -> None:
    data = (REJECTED / name).read_bytes()
    with pytest.raises(ImageRejected) as raised:
        normalise(data, Policy())
    with pytest.raises(Unreadable) as unreadable:
        read_picture(data, {})
    assert str(unreadable.value) == raised.value.detail


def test_first_image_of_a_process_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.webp").write_bytes(FILES["webp"])
    file = str(tmp_path / "a.webp")
    code = f"from trainer.feed.picture import read_picture; read_picture(open({file!r}, 'rb').read(), {{}})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_without_a_known_policy_the_picture_keeps_its_size() -> None:
    assert read_picture(FILES["orientation 6"], {}).shape == (SIDE, 16, 3)


def test_transparent_parts_get_the_background_colour() -> None:
    assert read_picture(FILES["rgba png"], {})[0, 0].tolist() == [255, 255, 255]
    assert read_picture(FILES["rgba png"], {"background": [9, 8, 7]})[0, 0].tolist() == [9, 8, 7]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "the file is empty"),
        (b"hello", "not an image: text"),
        (FILES["jpeg"][:-200], "(?i)truncated"),
        (FILES["rgba png"][:60], "."),
        (coded(colours("F"), "TIFF"), "unsupported pixel mode F"),
    ],
)
def test_an_unreadable_file_says_why(data: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        read_picture(data, {})


def test_an_animation_is_rejected_if_the_policy_rejects_it() -> None:
    policy = Policy(animation="reject")
    with pytest.raises(ImageRejected):
        normalise(FILES["animation"], policy)
    with pytest.raises(Unreadable, match="several frames"):
        read_picture(FILES["animation"], asdict(policy))
