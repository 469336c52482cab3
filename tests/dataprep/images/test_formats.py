"""Damage that a codec ignores, per format, and harmless oddities, which are counted."""

import io
import random
import struct
import threading
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dataprep.images.check import normalise
from dataprep.images.formats.tiff import listener
from dataprep.images.formats.tiff import messages as tiff_messages
from schemas.images.policy import ImageRejected, Policy
from tests.dataprep.examples import IMAGES as CASES
from tests.dataprep.examples import encoded

SIDE = 96
NOISY = np.linspace(0, 200, SIDE * SIDE).reshape(SIDE, SIDE) + np.random.default_rng(0).integers(0, 40, (SIDE, SIDE))
PHOTO = Image.fromarray(np.dstack([NOISY, NOISY[::-1], NOISY.T]).astype(np.uint8))
FILES = {
    "TIFF deflate": encoded(PHOTO, "TIFF", compression="tiff_adobe_deflate"),
    "TIFF LZW": encoded(PHOTO, "TIFF", compression="tiff_lzw"),
    "TIFF fax 3": encoded(PHOTO.convert("1"), "TIFF", compression="group3"),
    "TIFF fax 4": encoded(PHOTO.convert("1"), "TIFF", compression="group4"),
    "TIFF JPEG": encoded(PHOTO, "TIFF", compression="jpeg"),
    "TIFF LZMA": encoded(PHOTO, "TIFF", compression="lzma"),
    "GIF": encoded(PHOTO.quantize(64), "GIF"),
    "QOI": encoded(PHOTO, "QOI"),
}


def place(name: str) -> int:
    """The middle of the encoded pixels."""
    data = FILES[name]
    if not name.startswith("TIFF"):
        return len(data) // 2
    tags = Image.open(io.BytesIO(data)).tag_v2
    return int(tags[273][0] + tags[279][0] // 2)


def refused(data: bytes) -> str:
    with pytest.raises(ImageRejected) as raised:
        normalise(data, Policy())
    return raised.value.reason


@pytest.mark.parametrize("name", FILES)
def test_zeros_in_the_data_are_rejected(name: str) -> None:
    at, data = place(name), FILES[name]
    assert normalise(data, Policy()).warnings == ()
    assert refused(data[:at] + bytes(24) + data[at + 24 :]) == "corrupt"


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_rejected(name: str) -> None:
    assert refused(FILES[name][: place(name)]) in ("truncated", "corrupt")


@pytest.mark.parametrize("name", ["GIF", "QOI", "TIFF LZW"])
def test_missing_bytes_are_rejected(name: str) -> None:
    at, data = place(name), FILES[name]
    assert refused(data[:at] + data[at + 7 :]) in ("truncated", "corrupt")


def tiled(order: str, damage: bytes = b"") -> bytes:
    """A TIFF of four deflated tiles of 16 x 16 grey pixels, with its directory first."""
    tiles = [zlib.compress(bytes([40 * number]) * 256) for number in range(4)]
    tiles[2] = tiles[2][: -len(damage)] + damage if damage else tiles[2]
    room = 8 + 2 + 12 * 10 + 4
    offsets = [room + 32 + sum(map(len, tiles[:number])) for number in range(4)]
    values = {256: 32, 257: 32, 258: 8, 259: 8, 262: 1, 277: 1, 322: 16, 323: 16, 324: room, 325: room + 16}
    entries = b"".join(
        struct.pack(order + "HHII", tag, 4, 4 if tag in (324, 325) else 1, value) for tag, value in values.items()
    )
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, len(values))
    lists = struct.pack(order + "8I", *offsets, *map(len, tiles))
    return head + entries + bytes(4) + lists + b"".join(tiles)


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_checksum_of_every_tile_is_checked(order: str) -> None:
    assert normalise(tiled(order), Policy()).width == 32
    with pytest.raises(ImageRejected, match="tile 2"):
        normalise(tiled(order, b"\1\2\3\4"), Policy())


@pytest.mark.parametrize(
    ("data", "warning"),
    [
        (encoded(PHOTO.quantize(16), "GIF")[:-1], "gif_without_trailer"),
        (encoded(PHOTO, "BMP") + bytes(100), "bytes_behind_picture"),
        (encoded(PHOTO, "PPM") + encoded(PHOTO, "PPM"), "several_pictures"),
        (encoded(PHOTO, "PPM") + b"# 100%", "bytes_behind_picture"),
        (encoded(PHOTO, "QOI")[:-8], "qoi_without_end_marker"),
        (encoded(PHOTO, "QOI") + bytes(9), "bytes_behind_picture"),
    ],
)
def test_oddities_of_common_writers_are_counted(data: bytes, warning: str) -> None:
    picture = normalise(data, Policy())
    assert picture.warnings == (warning,)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(picture.data)).convert("RGB")).shape, (SIDE, SIDE, 3))


@pytest.mark.parametrize("behind", [b"\n", b"\0", b"\0\0", b"ab"])
def test_a_few_bytes_of_padding_give_no_warning(behind: bytes) -> None:
    for kind in ("BMP", "PPM"):
        assert normalise(encoded(PHOTO, kind) + behind, Policy()).warnings == ()


def test_a_repeated_count_is_valid_for_a_picture_of_many_pages() -> None:
    pages = [PHOTO, PHOTO.resize((SIDE // 2, SIDE // 2))]
    data = encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:], compression="tiff_lzw")
    assert (normalise(data, Policy()).width, normalise(data, Policy()).changed[0]) == (SIDE, "first_frame")


def test_mutated_directories_of_a_tiff_give_a_picture_or_are_rejected() -> None:
    draw = random.Random(0)
    for path in sorted((CASES / "accepted" / "changed").glob("*.tif")):
        whole = path.read_bytes()
        for _ in range(40):
            data = bytearray(whole)
            for _ in range(3):
                data[draw.randrange(4, min(300, len(data)))] = draw.choice([0, 1, 255, draw.randrange(256)])
            with suppress(ImageRejected):
                assert normalise(bytes(data), Policy(max_pixels=1 << 20)).data


def test_output_of_other_threads_reaches_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = iter(["2026-01-01 INFO a line of another thread\n"])

    class Listening:
        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            pass

        def take(self) -> str:
            return next(printed, "")

    monkeypatch.setattr(tiff_messages, "NativeStderr", Listening)
    with tiff_messages.CodecMessages("TIFF") as messages:
        assert messages.load(PHOTO) == ()
    assert capsys.readouterr().err == "2026-01-01 INFO a line of another thread\n"


def test_threads_give_the_same_results() -> None:
    whole, at = FILES["TIFF deflate"], place("TIFF deflate")
    found: list[str] = []

    def run(data: bytes) -> None:
        for _ in range(10):
            try:
                found.append(normalise(data, Policy()).changed[0])
            except ImageRejected as refusal:
                found.append(refusal.reason)

    threads = [
        threading.Thread(target=run, args=(data,))
        for data in (whole, whole[:at] + bytes(24) + whole[at + 24 :], FILES["TIFF fax 4"], FILES["TIFF JPEG"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(set(found)) == ["bilevel_to_grey", "corrupt", "tiff_to_png"]
    assert found.count("corrupt") == 10


def test_without_libtiffs_warnings_its_errors_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a build of Pillow that hides its libtiff: errors are still printed."""
    monkeypatch.setattr(listener, "load_libtiff", lambda: None)
    with pytest.raises(ImageRejected, match="Fax4Decode: Bad code word"):
        normalise((CASES / "rejected" / "corrupt" / "fax_bad_code.tif").read_bytes(), Policy())
    assert normalise(FILES["TIFF JPEG"], Policy()).width == SIDE


def test_the_libtiff_of_pillow_is_found() -> None:
    assert listener.load_libtiff() is not None


def test_camera_raw_is_recognised_in_any_directory() -> None:
    """In a following page, as some cameras write it, and in a sub-directory of the first."""
    thumbnail = encoded(PHOTO.resize((16, 12)), "TIFF")
    (start,) = struct.unpack_from("<I", thumbnail, 4)
    (count,) = struct.unpack_from("<H", thumbnail, start)
    sensor = struct.pack("<HHHIHH", 1, 262, 3, 1, 32803, 0) + bytes(4)
    after = start + 2 + 12 * count
    following = thumbnail[:after] + struct.pack("<I", len(thumbnail)) + thumbnail[after + 4 :] + sensor
    with pytest.raises(ImageRejected, match="camera raw"):
        normalise(following, Policy())


@pytest.mark.parametrize("path", sorted((CASES / "rejected" / "unsupported_format").glob("raw.*")), ids=str)
def test_camera_raw_is_rejected_by_the_header_check(path: Path) -> None:
    with pytest.raises(ImageRejected, match="camera raw"):
        normalise(path.read_bytes(), Policy(check="header"))


@pytest.mark.parametrize("kept", ["pixels", "pixels and more"])
def test_a_deflated_strip_that_does_not_end_with_its_size_is_corrupt(kept: str) -> None:
    grey = Image.new("L", (64, 64), 9)
    whole = encoded(grey, "TIFF", compression="tiff_adobe_deflate")
    assert normalise(whole, Policy()).width == 64
    pixels = bytes(64 * 64)
    packer = zlib.compressobj(0)  # stored: every byte stands in the stream, and its end can be left out
    stream = packer.compress(pixels + bytes(500 * (kept != "pixels"))) + packer.flush(zlib.Z_SYNC_FLUSH)
    directory = int.from_bytes(whole[4:8], "little")
    count = int.from_bytes(whole[directory : directory + 2], "little")
    data = bytearray(whole[:8] + stream)
    data += bytes(len(data) % 2)
    entries = bytearray(whole[directory : directory + 2 + 12 * count + 4])
    for entry in range(2, 2 + 12 * count, 12):
        tag = int.from_bytes(entries[entry : entry + 2], "little")
        if tag in (273, 279):  # where the only strip is, and its bytes
            entries[entry + 2 : entry + 4] = (4).to_bytes(2, "little")
            entries[entry + 8 : entry + 12] = (8 if tag == 273 else len(stream)).to_bytes(4, "little")
    data[4:8] = len(data).to_bytes(4, "little")
    with pytest.raises(ImageRejected) as refused:
        normalise(bytes(data + entries), Policy())
    assert refused.value.reason in ("corrupt", "truncated")
    assert "strip 0" in refused.value.detail
