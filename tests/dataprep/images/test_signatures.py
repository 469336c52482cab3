"""Files are named by their content: images of other formats, and other data in the place of an image."""

import struct

import pytest
from PIL import Image

from dataprep.images.check import normalise
from dataprep.images.signatures import describe_other, is_targa, looks_like_image
from schemas.images.policy import ImageRejected, Policy
from tests.dataprep.examples import encoded

RGB = Image.new("RGB", (8, 6), (200, 100, 50))
TARGA_END = bytes(8) + b"TRUEVISION-XFILE.\0"


def refusal(data: bytes) -> tuple[str, str]:
    with pytest.raises(ImageRejected) as raised:
        normalise(data, Policy())
    return raised.value.reason, raised.value.detail


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (encoded(RGB, "TGA"), "Targa"),
        (encoded(RGB, "TGA", compression="tga_rle"), "Targa"),
        (encoded(RGB.convert("L"), "TGA"), "Targa"),
        (encoded(RGB.convert("P"), "TGA"), "Targa"),
        (encoded(RGB, "PCX"), "PCX"),
        (encoded(RGB.convert("1"), "PCX"), "PCX"),
        (encoded(RGB, "SGI"), "SGI"),
        (encoded(RGB, "DDS"), "DirectDraw"),
        (encoded(RGB, "ICO"), "icon"),
        (encoded(RGB.convert("1"), "XBM"), "XBM"),
        (encoded(RGB.convert("1"), "MSP"), "Paint"),
        (b"8BPS\0\1" + bytes(40), "Photoshop"),
        (b"gimp xcf v011\0" + bytes(40), "GIMP"),
        (b"\x76\x2f\x31\x01" + bytes(40), "OpenEXR"),
        (b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n", "Radiance"),
        (b"PF\n4 4\n-1.0\n" + bytes(192), "PFM"),
        (b"P7\nWIDTH 4\n", "PAM"),
        (b"/* XPM */\nstatic char *a[] = {", "XPM"),
        (b"AT&TFORM\0\0\0\x10DJVU", "DjVu"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
        (b"II\xbc\1\x08\0\0\0" + bytes(40), "JPEG XR"),
        (b"\xabKTX 20\xbb\r\n\x1a\n" + bytes(40), "KTX"),
        (b"farbfeld\0\0\0\1\0\0\0\1" + bytes(8), "farbfeld"),
        (b"\x59\xa6\x6a\x95" + bytes(40), "Sun raster"),
        (bytes(128) + b"DICM" + bytes(40), "DICOM"),
        (b"\1\0\0\0\x6c\0\0\0" + bytes(32) + b" EMF" + bytes(40), "metafile"),
        (b"FORM\0\0\0\x20ILBMBMHD" + bytes(20), "Amiga"),
        (b"RIFF\x20\0\0\0CDR9" + bytes(20), "CorelDRAW"),
        (b"FUJIFILMCCD-RAW 0201" + bytes(40), "camera raw"),
        (b"FOVb\0\0\2\0" + bytes(40), "camera raw"),
        (b"IIU\0\x18\0\0\0" + bytes(40), "camera raw"),
        (b"\0MRM\0\0\0\0" + bytes(40), "camera raw"),
        (b"II\x1a\0\0\0HEAPCCDR" + bytes(40), "camera raw"),
    ],
)
def test_a_picture_of_another_format_is_named(data: bytes, name: str) -> None:
    reason, detail = refusal(data)
    assert reason == "unsupported_format"
    assert name in detail


def test_a_targa_with_unusual_fields_is_recognised_by_its_footer() -> None:
    odd = struct.pack("<BBBHHBHHHHBB", 5, 0, 2, 7, 0, 0, 0, 0, 8, 6, 24, 0x20)
    assert is_targa(odd, TARGA_END)
    assert not is_targa(odd, bytes(26))


@pytest.mark.parametrize("field", range(1, 3))
def test_every_field_of_a_targa_header_must_be_in_range(field: int) -> None:
    head = bytearray(encoded(RGB, "TGA")[:18])
    assert is_targa(bytes(head), b"")
    head[field] = 77
    assert not is_targa(bytes(head), b"")


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 3\n", "git lfs pull"),
        (b"/annex/objects/SHA256E-s1--a.jpg\n", "git annex get"),
        (b"../../.git/annex/objects/aa/bb/SHA256E-s1--a.jpg", "git annex get"),
        (b"outs:\r\n- md5: 1\r\n  path: a.jpg\r\n", "dvc pull"),
        (b"[InternetShortcut]\r\nURL=http://a/\r\n", "web page"),
        (b"\x4c\0\0\0\1\x14\2\0" + bytes(60), "shortcut"),
        (b"book\0\0\0\0mark" + bytes(60), "alias"),
        (b"\0\5\x16\7\0\2\0\0Mac OS X" + bytes(60), "AppleDouble"),
        (b"<?xml version='1.0'?>\n<Error><Code>NoSuchKey</Code></Error>", "(NoSuchKey)"),
        (b"<!-- a -->\n<html><body>404</body></html>", "HTML"),
        (b'{"message": "Not Found"}', "JSON"),
        (b"data:image/jpeg;base64,/9j/4AAQ", "base64"),
        (b"/9j/4AAQSkZJRgABAQ", "base64"),
        ("\ufeffC:\\pictures\\a.jpg\r\n".encode("utf-16-le"), "UTF-16"),
        (b"\x89HDF\r\n\x1a\n" + bytes(40), "HDF5"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(40), "Thumbs.db"),
        (b"RIFF\x20\0\0\0WAVEfmt " + bytes(20), "audio"),
    ],
)
def test_other_files_are_named(data: bytes, name: str) -> None:
    reason, detail = describe_other(data)
    assert reason == "not_an_image"
    assert name in detail


@pytest.mark.parametrize("head", [bytes(32), b"MZ" + bytes(30), b"plain text", b"\1\2\3\4" * 8])
def test_files_without_magic_bytes_of_an_image_are_not_images(head: bytes) -> None:
    assert not looks_like_image(head)
