"""Draws the image cases: python tests/cases/make.py. The files are committed; run it to add one.

images/rejected/<reason>/<what>   must be refused with that reason
images/accepted/<how>/<what>      must be accepted, <how>: untouched, trimmed (stored without something around its
                                  pixels) or changed; <what>.expected.png holds the pixels that must come out, made
                                  here with NumPy from the picture that was drawn, not with the code under test
"""

import io
import struct
import zipfile
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

HERE = Path(__file__).parent / "images"
SIZE = (20, 14)


def drawing() -> np.ndarray:
    """A smooth picture without symmetry: every turn and flip of it is another, and JPEG keeps it closely."""
    x, y = np.meshgrid(np.linspace(0, 1, SIZE[0]), np.linspace(0, 1, SIZE[1]))
    return np.stack([255 * x, 255 * y, 255 * (1 - x) * y], axis=-1).round().astype(np.uint8)


RGB = drawing()
GREY = RGB[:, :, 0]


def encode(pixels: Any, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def jpeg(**options: Any) -> bytes:
    return encode(RGB, "JPEG", quality=95, subsampling=0, **options)


def decoded(data: bytes) -> np.ndarray:
    """What an ordinary decoder makes of a plain JPEG: the reference where JPEG itself loses something."""
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def marker(data: bytes, code: int, at: int = 2) -> int:
    """Where the segment with this marker starts; `at` is where some segment does."""
    while data[at + 1] != code:
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return at


def patched(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes([value]) + data[at + 1 :]


def chunk(kind: bytes, data: bytes, wrong: int = 0) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data) ^ wrong)


def png(header: bytes, body: bytes, *extra: bytes, wrong: int = 0) -> bytes:
    chunks = [chunk(b"IHDR", header), *extra, chunk(b"IDAT", zlib.compress(body), wrong), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def png_of(*chunks: tuple[bytes, bytes]) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in chunks)


def plain_png(wrong: int = 0, *extra: bytes) -> bytes:
    rows = b"".join(b"\0" + row.tobytes() for row in RGB)
    return png(struct.pack(">IIBBBBB", *SIZE, 8, 2, 0, 0, 0), rows, *extra, wrong=wrong)


def ended(data: bytes) -> bytes:
    """A JPEG whose last bytes are lost, closed as if it were whole."""
    return data + b"\xff\xd9"


def scan_starts(data: bytes) -> list[int]:
    """Where each scan of a progressive JPEG begins, with the tables before it, and where the last ends."""
    starts, at = [], marker(data, 0xC4)
    while data[at + 1] != 0xD9:
        starts.append(at)
        at = marker(data, 0xDA, at)
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        while data[at] != 0xFF or data[at + 1] == 0 or 0xD0 <= data[at + 1] <= 0xD7:
            at += 1
    return [*starts, at]


def without_scan(data: bytes, number: int) -> bytes:
    """A progressive JPEG without one of its scans; -1 is the last."""
    starts = scan_starts(data)
    parts = [data[start:end] for start, end in pairwise(starts)]
    del parts[number]
    return data[: starts[0]] + b"".join(parts) + data[starts[-1] :]


def scan_per_colour(scans: int) -> bytes:
    """A baseline JPEG of three colours with a scan for each, of which there are `scans`."""
    grey = encode(GREY, "JPEG", quality=95)
    sof, sos = marker(grey, 0xC0), marker(grey, 0xDA)
    frame = b"\xff\xc0\0\x11" + grey[sof + 4 : sof + 9] + b"\3" + b"\1\x11\0\2\x11\0\3\x11\0"
    parts = [grey[sos : sos + 5] + bytes([number]) + grey[sos + 6 : -2] for number in range(1, scans + 1)]
    return ended(
        grey[:sof] + frame + grey[sof + 2 + int.from_bytes(grey[sof + 2 : sof + 4], "big") : sos] + b"".join(parts)
    )


def sized(data: bytes, width: int, height: int) -> bytes:
    """A JPEG whose frame header says another size."""
    sof = marker(data, 0xC0 if b"\xff\xc0" in data else 0xC2)
    return data[: sof + 5] + struct.pack(">HH", height, width) + data[sof + 9 :]


def interlaced_png(pixels: np.ndarray = RGB, rows_lost: int = 0) -> bytes:
    """Adam7: seven pictures of every so many columns and rows."""
    passes = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
    parts = [pixels[top::down, left::across] for left, top, across, down in passes]
    rows = [b"\0" + row.tobytes() for part in parts if part.size for row in part]
    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 1)
    return png(header, b"".join(rows[: len(rows) - rows_lost]))


def deep_png() -> bytes:
    """16 bits a channel: the high byte is the drawing, the low byte is noise that must go."""
    low = np.random.default_rng(0).integers(0, 256, RGB.shape, dtype=np.uint8)
    rows = b"".join(b"\0" + np.stack([h, lo], axis=-1).tobytes() for h, lo in zip(RGB, low, strict=True))
    return png(struct.pack(">IIBBBBB", *SIZE, 16, 2, 0, 0, 0), rows)


def grey16() -> np.ndarray:
    return GREY.astype(np.uint16) * 256 + np.random.default_rng(1).integers(0, 256, GREY.shape, dtype=np.uint16)


def tiff_of(
    pixels: np.ndarray, tags: dict[int, int | tuple[int, ...]], data: bytes = b"", below: bytes = b"", start: int = 8
) -> bytes:
    """A little-endian TIFF of one strip with its directory in front: `tags` beside those of the size; `data` in place
    of the bytes of `pixels`. `below` stands at the end, and SubIFDs (tag 330) points there.
    """
    data = data or pixels.tobytes()
    height, width = pixels.shape[:2]
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    bits = (8 * pixels.itemsize,) * channels
    found = {
        256: width,
        257: height,
        258: bits,
        259: 1,
        262: 2 if channels > 1 else 1,
        277: channels,
        278: height,
        **tags,
    }
    found |= {273: 0, 279: len(data)} | ({330: 0} if below else {})
    room = start + 2 + 12 * len(found) + 4
    lists = {tag: value for tag, value in found.items() if isinstance(value, tuple) and len(value) > 2}
    places = dict(zip(lists, range(room, room + 100, 12), strict=False))
    found[273] = room + 12 * len(lists)
    if below:
        found[330] = found[273] + len(data) + len(data) % 2
    entries = b""
    for tag, value in sorted(found.items()):
        values = value if isinstance(value, tuple) else (value,)
        kind = 4 if tag in (273, 279, 330) else 3
        inline = struct.pack("<I" if kind == 4 else f"<{len(values)}H", *values)
        inline = struct.pack("<I", places[tag]) if tag in places else inline.ljust(4, b"\0")
        entries += struct.pack("<HHI", tag, kind, len(values)) + inline
    body = b"".join(struct.pack(f"<{len(value)}H", *value).ljust(12, b"\0") for value in lists.values())
    head = struct.pack("<2sHI", b"II", 42, start).ljust(start, b"\0") + struct.pack("<H", len(found))
    return head + entries + bytes(4) + body + data + bytes(len(data) % 2) + below


def sensor_directory(photometric: int) -> bytes:
    """A directory for `below`: 640 x 480 pixels of a sensor, without their data."""
    entries = ((256, 640), (257, 480), (258, 12), (259, 1), (262, photometric))
    return (
        struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHIHH", t, 3, 1, v, 0) for t, v in entries) + bytes(4)
    )


def small_directory() -> bytes:
    """A directory for `below`: a reduced copy, without its data."""
    entries = ((254, 1), (256, 10), (257, 7), (258, 8), (259, 1), (262, 1))
    return (
        struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHIHH", t, 3, 1, v, 0) for t, v in entries) + bytes(4)
    )


def packed12() -> bytes:
    """The grey drawing as 12-bit values, two in three bytes; the low four bits are noise that must go."""
    values = (GREY.astype(int) << 4 | 9).reshape(len(GREY), -1, 2)
    first, second = values[..., 0], values[..., 1]
    rows = np.stack([first >> 4, (first & 15) << 4 | second >> 8, second & 255], axis=-1)
    return bytes(rows.astype(np.uint8).tobytes())


def targa() -> bytes:
    return struct.pack("<BBBHHBHHHHBB", 0, 0, 2, 0, 0, 0, 0, 0, *SIZE, 24, 0x20) + RGB[:, :, ::-1].tobytes()


def strip_hit(compression: str, damage: bytes) -> bytes:
    """A TIFF whose directory is behind its only strip, with `damage` written over the middle of the strip."""
    coarse = RGB // 128 * 128  # or hardly a code of LZW would stand for more than one value
    pixels = Image.fromarray(GREY > 100) if compression == "group4" else coarse if "lzw" in compression else RGB
    data = encode(pixels, "TIFF", compression=compression)
    tags = Image.open(io.BytesIO(data)).tag_v2
    at = tags[273][0] + tags[279][0] // 2
    return data[:at] + damage + data[at + len(damage) :]


def exif(orientation: int) -> bytes:
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags.tobytes()


# The stored picture for each orientation, such that turning it as EXIF says gives the drawing.
STORED = {
    1: RGB,
    2: RGB[:, ::-1],
    3: RGB[::-1, ::-1],
    4: RGB[::-1],
    5: RGB.transpose(1, 0, 2),
    6: np.rot90(RGB, 1),
    7: RGB[::-1, ::-1].transpose(1, 0, 2),
    8: np.rot90(RGB, -1),
}


def rejected() -> dict[str, bytes]:
    whole = jpeg()
    progressive = jpeg(progressive=True)
    sof, sos, dqt = marker(whole, 0xC0), marker(whole, 0xDA), marker(whole, 0xDB)
    sof_end = sof + 2 + int.from_bytes(whole[sof + 2 : sof + 4], "big")
    starts = scan_starts(progressive)
    last_scan = progressive[starts[-2] : starts[-1]]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(zipfile.ZipInfo("a"), "a")
    header = struct.pack(">IIBBBBB", *SIZE, 8, 2, 0, 0, 0)
    tiff, gif, webp, bmp = (encode(RGB, kind) for kind in ("TIFF", "GIF", "WEBP", "BMP"))
    animation = [Image.fromarray(RGB), Image.fromarray(RGB[::-1])]
    return {
        "empty/zero_bytes.jpg": b"",
        "not_an_image/page.jpg": b"<!DOCTYPE html>\n<html><body>404</body></html>\n",
        "not_an_image/text.png": b"no picture here\n",
        "not_an_image/archive.jpg": archive.getvalue(),
        "not_an_image/zeros.jpg": bytes(200),
        "not_an_image/film.jpg": b"\0\0\0\x18ftypisom\0\0\0\0isommp42" + bytes(40),
        "not_an_image/document.png": b"%PDF-1.4\n1 0 obj\n",
        "unsupported_format/drawing.svg": b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>\n',
        "unsupported_format/photo.heic": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(40),
        "unsupported_format/photo.jxl": b"\xff\x0a" + bytes(40),
        "unsupported_format/layers.psd": b"8BPS\0\1" + bytes(40),
        "not_an_image/lfs_pointer.jpg": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "not_an_image/annex_pointer.jpg": b"/annex/objects/MD5E-s1--0.jpg\n",
        "not_an_image/storage_error.jpg": b"<?xml version='1.0'?>\n<Error><Code>AccessDenied</Code></Error>",
        "not_an_image/shortcut.jpg": b"\x4c\0\0\0\1\x14\2\0" + bytes(40),
        "unsupported_format/picture.tga": targa(),
        "unsupported_format/picture.pcx": encode(RGB, "PCX"),
        "unsupported_format/picture.sgi": encode(RGB, "SGI"),
        "unsupported_format/picture.dds": encode(RGB, "DDS"),
        "unsupported_format/picture.xbm": encode(Image.fromarray(GREY > 100), "XBM"),
        "unsupported_format/raw.nef": tiff_of(RGB, {254: 1}, below=sensor_directory(32803)),
        "unsupported_format/raw.dng": tiff_of(RGB, {50706: 1}),
        "unsupported_format/raw.cr2": tiff_of(RGB, {}, start=16)[:8] + b"CR\2\0" + tiff_of(RGB, {}, start=16)[12:],
        "unsupported_format/raw.orf": b"IIRO" + tiff_of(RGB, {})[4:],
        "unsupported_format/raw.cr3": b"\0\0\0\x18ftypcrx \0\0\0\0crx isom" + bytes(40),
        "unsupported_format/thumbnail_first.tif": tiff_of(RGB, {254: 1}, below=sensor_directory(2)),
        "unsupported_format/sixteen_bit_grey_inverted_big_endian.tif": b"MM\0*\0\0\0\x08\0\x05"
        + b"".join(struct.pack(">HHIHH", t, 3, 1, v, 0) for t, v in ((256, 2), (257, 2), (258, 16), (259, 1), (262, 0)))
        + bytes(4),
        "corrupt/deflate.tif": strip_hit("tiff_adobe_deflate", bytes(8)),
        "corrupt/lzw.tif": strip_hit("tiff_lzw", bytes(8)),
        "corrupt/packbits.tif": strip_hit("packbits", bytes(8)),
        "corrupt/fax_bad_code.tif": strip_hit("group4", b"\x55\xaa"),
        "corrupt/fax_lost_lines.tif": strip_hit("group4", bytes(3)),
        "corrupt/jpeg.tif": strip_hit("jpeg", bytes(12)),
        "corrupt/too_few_pixels.gif": fewer_pixels(gif),
        "corrupt/pixels_left_over.qoi": hit(encode(RGB, "QOI"), 8, struct.pack(">I", SIZE[1] - 2)),
        "truncated/pixels_missing.qoi": encode(RGB, "QOI")[:100],
        "corrupt/lines_left_over.bmp": bmp[:22] + struct.pack("<i", SIZE[1] - 2) + bmp[26:],
        "corrupt/lines_left_over.ppm": encode(RGB, "PPM").replace(b"20 14", b"20 12"),
        "truncated/run_lengths.bmp": run_lengths(ended=False),
        "unsupported_format/icon.ico": b"\0\0\1\0\1\0" + bytes(40),
        "unsupported_format/lossless.jpg": patched(whole, sof + 1, 0xC3),
        "unsupported_format/jpeg_ls.jpg": patched(whole, sof + 1, 0xF7),
        "unsupported_format/twelve_bit.jpg": patched(patched(whole, sof + 4, 12), sof + 1, 0xC1),
        "truncated/after_soi.jpg": whole[:2],
        "truncated/after_the_ff_of_a_marker.jpg": whole[: dqt + 1],
        "truncated/between_sof_and_sos.jpg": whole[:sof_end],
        "truncated/inside_a_segment.jpg": whole[: sof + 6],
        "truncated/after_sos.jpg": whole[: sos + 14],
        "truncated/mid_scan.jpg": whole[: (sos + len(whole)) // 2],
        "truncated/no_eoi.jpg": whole[:-2],
        "truncated/progressive_mid_scan.jpg": progressive[: (len(progressive) * 2) // 3],
        "truncated/progressive_no_eoi.jpg": progressive[:-2],
        "truncated/no_iend.png": plain_png()[:-12],
        "truncated/mid_idat.png": plain_png()[:80],
        "truncated/header.png": plain_png()[:20],
        "truncated/cut.tif": tiff[: len(tiff) // 2],
        "truncated/cut.gif": gif[: len(gif) // 2],
        "truncated/cut.webp": webp[: len(webp) // 2],
        "truncated/cut.bmp": bmp[: len(bmp) // 2],
        "corrupt/no_tables.jpg": whole[:dqt] + whole[sof:],
        "corrupt/bad_checksum.png": plain_png(wrong=1),
        "corrupt/bad_checksum_of_transparency.png": plain_png(0, chunk(b"tRNS", bytes(6), wrong=1)),
        "corrupt/unknown_critical_chunk.png": plain_png(0, chunk(b"ABCD", b"x")),
        "corrupt/no_header_first.png": png_of((b"tEXt", b"a\0b"), (b"IHDR", header), (b"IEND", b"")),
        "truncated/too_few_pixels_interlaced.png": interlaced_png(rows_lost=1),
        "corrupt/larger_than_its_scan.jpg": sized(whole, 12_000, 12_000),
        "corrupt/larger_than_its_scans.jpg": sized(progressive, 12_000, 12_000),
        "truncated/progressive_without_its_last_scan.jpg": without_scan(progressive, -1),
        "corrupt/progressive_without_its_first_scan.jpg": without_scan(progressive, 0),
        "corrupt/progressive_with_a_scan_twice.jpg": ended(progressive[:-2] + last_scan),
        "truncated/no_scan_of_a_colour.jpg": scan_per_colour(2),
        "corrupt/two_frame_headers.jpg": whole[:sof] + whole[sof:sof_end] + whole[sof:],
        "corrupt/two_starts.jpg": whole[:sof] + b"\xff\xd8" + whole[sof:],
        "unsupported_format/height_in_dnl.jpg": ended(sized(whole, SIZE[0], 0)[:-2] + b"\xff\xdc\0\4\0\x0e"),
        "unsupported_format/iphone.png": png_of((b"CgBI", bytes(4)), (b"IHDR", header), (b"IEND", b"")),
        "unsupported_format/hierarchical.jpg": patched(whole, sof + 1, 0xC5),
        "corrupt/bad_pixels.png": png_of((b"IHDR", header), (b"IDAT", b"\x78\x9c" + bytes(40)), (b"IEND", b"")),
        "truncated/too_few_pixels.png": png(header, b"\0" * 10),
        "corrupt/junk_before.jpg": b"GARBAGE\r\n" + whole,
        "unsupported_depth/float.tif": encode(Image.fromarray(GREY.astype(np.float32)), "TIFF"),
        "unsupported_depth/int32.tif": encode(Image.fromarray(GREY.astype(np.int32)), "TIFF"),
        "too_large/bomb.png": bomb(16_384),
        "corrupt/header_says_64000.jpg": whole[: sof + 5] + struct.pack(">HH", 64_000, 64_000) + whole[sof + 9 :],
        "animated/two_frames.gif": encode(animation[0], "GIF", save_all=True, append_images=animation[1:]),
        "animated/two_pages.tif": encode(animation[0], "TIFF", save_all=True, append_images=animation[1:]),
        "too_small/one_pixel.png": encode(RGB[:1, :1], "PNG"),
        "extreme_aspect/strip.png": encode(RGB[:1], "PNG"),
    }


def hit(data: bytes, at: int, damage: bytes) -> bytes:
    return data[:at] + damage + data[at + len(damage) :]


def fewer_pixels(gif: bytes) -> bytes:
    """The GIF with two more rows in the size of its picture than its data holds."""
    at = gif.index(b"\x2c\0\0\0\0") + 7
    return gif[:8] + struct.pack("<H", SIZE[1] + 2) + gif[10:at] + struct.pack("<H", SIZE[1] + 2) + gif[at + 2 :]


def run_lengths(ended: bool) -> bytes:
    """A run-length coded BMP of the grey drawing; without its last rows and end marker, Pillow fills it up."""
    rows = GREY[::-1] if ended else GREY[:4:-1]
    lines = [b"".join(bytes([1, value]) for value in row) + b"\0\0" for row in rows]
    runs = b"".join(lines) + (b"\0\1" if ended else b"")
    palette = b"".join(bytes([i, i, i, 0]) for i in range(256))
    start = 14 + 40 + len(palette)
    head = struct.pack("<2sIHHI", b"BM", start + len(runs), 0, 0, start)
    return head + struct.pack("<IiiHHIIiiII", 40, *SIZE, 1, 8, 1, len(runs), 0, 0, 256, 0) + palette + runs


def bomb(side: int) -> bytes:
    """A white picture of one bit a pixel: side * side pixels in a few kilobytes."""
    packer = zlib.compressobj(9)
    body = b"".join(packer.compress(b"\0" + bytes(side // 8)) for _ in range(side)) + packer.flush()
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def over_white(pixels: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    share = alpha[:, :, None].astype(np.float64) / 255
    return (pixels * share + 255 * (1 - share)).round().astype(np.uint8)


def accepted() -> dict[str, tuple[bytes, np.ndarray]]:
    whole = jpeg()
    same = decoded(whole)
    alpha = (GREY > 127).astype(np.uint8) * 255
    soft = GREY
    rgba = np.dstack([RGB, alpha])
    garbage = np.where(alpha[:, :, None] > 0, rgba, [255, 0, 255, 0]).astype(np.uint8)
    indexed = Image.fromarray(RGB).quantize(16)
    colours = np.array(indexed.getpalette()[: 3 * 16], np.uint8).reshape(-1, 3)[np.asarray(indexed)]
    bits = GREY > 127
    black_or_white = (bits * 255).astype(np.uint8)
    frames = [Image.fromarray(RGB), Image.fromarray(RGB[::-1])]
    cmyk = np.dstack([255 - RGB, np.zeros_like(GREY)])
    deep = grey16()
    large = zlib.compress(bytes(3 << 20), 9)
    header = struct.pack(">IIBBBBB", *SIZE, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in RGB)
    keyed = plain_png(0, chunk(b"tRNS", struct.pack(">HHH", *RGB[3, 3])))
    found: dict[str, tuple[bytes, np.ndarray]] = {
        "untouched/baseline.jpg": (whole, same),
        "untouched/progressive.jpg": (jpeg(progressive=True), same),
        "untouched/optimised.jpg": (jpeg(optimize=True), same),
        "untouched/restart_markers.jpg": (jpeg(restart_marker_blocks=1), same),
        "untouched/grey.jpg": (encode(GREY, "JPEG", quality=95), decoded(encode(GREY, "JPEG", quality=95))),
        "trimmed/junk_after.jpg": (whole + b"JUNK" * 20, same),
        "trimmed/two_pictures.mpo": (mpo(), same),
        "untouched/wrong_extension.png": (whole, same),
        "untouched/no_extension": (whole, same),
        "untouched/unreadable_exif.jpg": (jpeg(exif=b"Exif\0\0MM\0*\0\0\xff\xff" + bytes(9)), same),
        "untouched/unreadable_xmp.jpg": (jpeg(xmp=b"<x:xmpmeta <<<"), same),
        "untouched/unreadable_icc.jpg": (jpeg(icc_profile=b"not a profile"), same),
        "untouched/plain.png": (plain_png(), RGB),
        "untouched/grey.png": (encode(GREY, "PNG"), np.dstack([GREY] * 3)),
        "untouched/interlaced.png": (interlaced_png(), RGB),
        "untouched/a_scan_for_each_colour.jpg": (scan_per_colour(3), decoded(scan_per_colour(3))),
        "trimmed/film_after.jpg": (whole + b"\0\0\0\x18ftypmp42\0\0\0\0isommp42" + bytes(2000), same),
        "trimmed/zeros_after_progressive.jpg": (jpeg(progressive=True) + bytes(3), same),
        "trimmed/junk_after.png": (plain_png() + b"JUNK" * 20, RGB),
        "trimmed/text_of_three_megabytes.png": (plain_png(0, chunk(b"zTXt", b"a\0\0" + large)), RGB),
        "trimmed/text_behind_the_pixels.png": (
            plain_png()[:-12] + chunk(b"iTXt", b"a\0\1\0\0\0" + large) + plain_png()[-12:],
            RGB,
        ),
        "trimmed/profile_of_three_megabytes.png": (plain_png(0, chunk(b"iCCP", b"a\0\0" + large)), RGB),
        "trimmed/unreadable_profile.png": (plain_png(0, chunk(b"iCCP", b"a\0\0not deflated")), RGB),
        "trimmed/unknown_text_compression.png": (plain_png(0, chunk(b"zTXt", b"a\0\7" + large)), RGB),
        "trimmed/short_resolution.png": (plain_png(0, chunk(b"pHYs", b"a")), RGB),
        "trimmed/short_frame_control.png": (plain_png(0, chunk(b"fcTL", b"a")), RGB),
        "trimmed/frame_of_no_animation.png": (plain_png(0, chunk(b"fdAT", bytes(40))), RGB),
        "changed/more_rows_than_its_size.png": (png(header, rows + bytes(1000)), RGB),
        "changed/junk_behind_the_pixels.png": (
            png_of((b"IHDR", header), (b"IDAT", zlib.compress(rows) + b"JUNK"), (b"IEND", b"")),
            RGB,
        ),
        "trimmed/bad_checksum_of_a_comment.png": (plain_png(0, chunk(b"tEXt", b"a\0b", wrong=1)), RGB),
        "changed/cmyk_adobe_inverted.jpg": (
            encode(Image.fromarray(cmyk, "CMYK"), "JPEG", quality=100, subsampling=0),
            RGB,
        ),
        "changed/cmyk.tif": (encode(Image.fromarray(cmyk, "CMYK"), "TIFF"), RGB),
        "changed/sixteen_bit_grey.png": (encode(Image.fromarray(deep), "PNG"), np.dstack([deep >> 8] * 3)),
        "changed/sixteen_bit_grey.tif": (encode(Image.fromarray(deep), "TIFF"), np.dstack([deep >> 8] * 3)),
        "changed/sixteen_bit_white_is_zero.tif": (tiff_of(65535 - deep, {262: 0}), np.dstack([deep >> 8] * 3)),
        "changed/eight_bit_white_is_zero.tif": (tiff_of(255 - GREY, {262: 0}), np.dstack([GREY] * 3)),
        "changed/twelve_bit_packed.tif": (tiff_of(GREY, {258: 12}, packed12()), np.dstack([GREY] * 3)),
        "changed/reduced_sub_picture.tif": (tiff_of(RGB, {}, below=small_directory()), RGB),
        "changed/one_page_marked_reduced.tif": (tiff_of(RGB, {254: 1}), RGB),
        "changed/deflate.tif": (encode(RGB, "TIFF", compression="tiff_adobe_deflate"), RGB),
        "changed/lzw.tif": (encode(RGB, "TIFF", compression="tiff_lzw"), RGB),
        "changed/packbits.tif": (encode(RGB, "TIFF", compression="packbits"), RGB),
        "changed/fax_group_3.tif": (
            encode(Image.fromarray(bits), "TIFF", compression="group3"),
            np.dstack([black_or_white] * 3),
        ),
        "changed/fax_group_4.tif": (
            encode(Image.fromarray(bits), "TIFF", compression="group4"),
            np.dstack([black_or_white] * 3),
        ),
        "changed/run_lengths.bmp": (run_lengths(ended=True), np.dstack([GREY] * 3)),
        "changed/two_bytes_behind.bmp": (encode(RGB, "BMP") + b"ab", RGB),
        "changed/two_pictures.ppm": (encode(RGB, "PPM") + encode(RGB[::-1], "PPM"), RGB),
        "changed/interlaced.gif": (encode(indexed, "GIF", interlace=1), colours),
        "changed/without_trailer.gif": (encode(indexed, "GIF")[:-1], colours),
        "changed/transparent_everywhere.png": (encode(np.dstack([RGB, 0 * GREY]), "PNG"), np.full_like(RGB, 255)),
        "changed/transparent_sixteen_bit_grey.png": (
            encode(Image.fromarray(deep), "PNG", transparency=int(deep[3, 3])),
            np.dstack([np.where(deep == deep[3, 3], 255, deep >> 8)] * 3),
        ),
        "changed/sixteen_bit_grey.pgm": (pgm16(deep), np.dstack([deep >> 8] * 3)),
        "changed/sixteen_bit_rgb.png": (deep_png(), RGB),
        "changed/one_bit.png": (encode(Image.fromarray(bits), "PNG"), np.dstack([black_or_white] * 3)),
        "changed/one_bit.tif": (encode(Image.fromarray(bits), "TIFF"), np.dstack([black_or_white] * 3)),
        "changed/palette.png": (encode(indexed, "PNG"), colours),
        "changed/palette.gif": (encode(indexed, "GIF"), colours),
        "changed/palette_with_a_transparent_colour.png": (
            encode(indexed, "PNG", transparency=3),
            np.where(np.asarray(indexed)[:, :, None] == 3, 255, colours),
        ),
        "changed/one_transparent_colour.png": (keyed, np.where((RGB[3, 3] == RGB).all(-1)[:, :, None], 255, RGB)),
        "changed/grey_alpha.png": (
            encode(Image.fromarray(np.dstack([GREY, soft]), "LA"), "PNG"),
            over_white(np.dstack([GREY] * 3), soft),
        ),
        "changed/alpha_over_garbage.png": (encode(garbage, "PNG"), over_white(RGB, alpha)),
        "changed/soft_alpha.png": (encode(np.dstack([RGB, soft]), "PNG"), over_white(RGB, soft)),
        "changed/alpha.tif": (encode(rgba, "TIFF"), over_white(RGB, alpha)),
        "changed/alpha.webp": (encode(rgba, "WEBP", lossless=True, exact=True), over_white(RGB, alpha)),
        "changed/first_frame.gif": (
            encode(indexed, "GIF", save_all=True, append_images=[indexed.rotate(180)]),
            colours,
        ),
        "changed/first_frame.webp": (
            encode(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True),
            RGB,
        ),
        "changed/first_frame.apng.png": (encode(frames[0], "PNG", save_all=True, append_images=frames[1:]), RGB),
        "changed/first_page.tif": (encode(frames[0], "TIFF", save_all=True, append_images=frames[1:]), RGB),
        "changed/plain.bmp": (encode(RGB, "BMP"), RGB),
        "changed/plain.ppm": (encode(RGB, "PPM"), RGB),
        "changed/plain.webp": (encode(RGB, "WEBP", lossless=True), RGB),
        "changed/plain.jp2": (encode(RGB, "JPEG2000"), RGB),
        "changed/plain.qoi": (encode(RGB, "QOI"), RGB),
    }
    for orientation in range(2, 9):
        stored = np.ascontiguousarray(STORED[orientation])
        found[f"changed/orientation_{orientation}.png"] = (encode(stored, "PNG", exif=exif(orientation)), RGB)
        tags = {274: orientation}
        found[f"changed/orientation_{orientation}.tif"] = (encode(stored, "TIFF", tiffinfo=tags), RGB)
        lossy = encode(stored, "JPEG", quality=95, subsampling=0, exif=exif(orientation))
        found[f"changed/orientation_{orientation}.jpg"] = (lossy, RGB)
    return found


def mpo() -> bytes:
    buffer = io.BytesIO()
    other = Image.fromarray(RGB[::-1])
    Image.fromarray(RGB).save(buffer, "MPO", save_all=True, append_images=[other], quality=95, subsampling=0)
    return buffer.getvalue()


def pgm16(values: np.ndarray) -> bytes:
    return b"P5\n%d %d\n65535\n" % SIZE + values.astype(">u2").tobytes()


def main() -> None:
    for name, data in rejected().items():
        write(HERE / "rejected" / name, data)
    for name, (data, pixels) in accepted().items():
        write(HERE / "accepted" / name, data)
        write(HERE / "accepted" / f"{name}.expected.png", encode(pixels.astype(np.uint8), "PNG"))


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


if __name__ == "__main__":
    main()
