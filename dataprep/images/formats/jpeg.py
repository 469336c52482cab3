"""Check the marker chain of a JPEG, and drop segments of it, without decoding pixels."""

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from dataprep.images.formats.container import ContainerCheck
from dataprep.images.formats.jpeg_scans import FOLLOWED, ScanProblem, Scans

JPEG_MAGIC = b"\xff\xd8\xff"
_MARKER = re.compile(rb"\xff[^\x00\xff]")
_NO_MARKER = (b"", b"\x00", b"\xff")  # after a 0xFF
# In entropy-coded data a 0xFF is followed by 00 (stuffing), by D0..D7 (restart) or by FF (fill).
_NEXT_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_STANDALONE = frozenset([0x01, *range(0xD0, 0xD8)])
SOI, EOI, SOS, _QUANTISATION, COMMENT = 0xD8, 0xD9, 0xDA, 0xDB, 0xFE
_JFIF, _PROFILE, ADOBE = 0xE0, 0xE2, 0xEE
APPLICATION = range(0xE0, 0xF0)
_SHORTEST_FRAME = 8 + 3  # length of a frame header of one component, in bytes
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC} | {0xF7}
# Pillow takes a microsecond per byte between segments and 3 per segment: 20 MB of either take 20 s. A file of 256 MiB
# needs 4,096 full segments, with a few bytes of fill and padding between them.
_MAX_SEGMENTS = 50_000
_MAX_BETWEEN = 1 << 20
_LOSSLESS = frozenset([0xC3, 0xC7, 0xCB, 0xCF])
_HIERARCHICAL = frozenset([0xC5, 0xC6, 0xCD, 0xCE])


class Segment(NamedTuple):
    """Offsets of a segment.

    `start` is the 0xFF before the marker. `body` is the length field after the marker. `header_end` is the end that the
    length announces. `end` is equal to it or, for a scan, the end of its coded bits. `surplus` is the number of bytes
    before the segment that belong to no segment, without fill bytes (0xFF).
    """

    marker: int
    start: int
    body: int
    header_end: int
    end: int
    surplus: int


def segments(data: bytes, headers_only: bool = False) -> Iterator[Segment]:
    """Yield the segments up to EOI, or up to the first scan if `headers_only`.

    An incomplete segment has `end` -1 and is the last one.
    """
    at = 2
    while True:
        previous_end = at
        marker, at = _next_marker(data, at)
        if marker is None:
            return
        if marker in _STANDALONE:
            continue
        start, body = at - 2, at
        surplus = len(data[previous_end:start].rstrip(b"\xff"))
        at += int.from_bytes(data[at : at + 2], "big") if marker not in (SOI, EOI) else 0
        if at > len(data) or (at < body + 2 and marker not in (SOI, EOI)):
            yield Segment(marker, start, body, -1, -1, surplus)
            return
        header_end = at
        if marker == SOS and not headers_only:
            following = _NEXT_MARKER.search(data, at)
            at = following.start() if following else len(data)
        yield Segment(marker, start, body, header_end, at, surplus)
        if marker == EOI or (marker == SOS and headers_only):
            return


def check_jpeg_container(data: bytes, headers_only: bool = False) -> ContainerCheck:
    """Check the segments from SOI to EOI and the scans. If `headers_only`, stop at the first scan."""
    try:
        return _walk(data, headers_only)
    except ScanProblem as problem:
        return ContainerCheck(str(problem), checksum=True)


def _walk(data: bytes, headers_only: bool) -> ContainerCheck:
    frame, bare, scan = -1, True, 0
    between, at = 0, 2
    scans: Scans | None = None
    for number, segment in enumerate(segments(data, headers_only)):
        marker = segment.marker
        between, at = between + segment.start - at, segment.end
        if number > _MAX_SEGMENTS or between > _MAX_BETWEEN:
            return ContainerCheck("it has too many segments, or too many bytes between them", checksum=True)
        if segment.end < 0:
            return ContainerCheck("it ends inside a segment")
        if marker == SOI:
            return ContainerCheck("it has a second start-of-image marker", checksum=True)
        if marker == EOI:
            return _end(data, frame, scans, bare, max(scan, 0), segment.end)
        scan = -1 if scan else 0  # a segment follows a scan
        if marker in _FRAMES:
            scans = _begin(data, segment, frame)
            frame = segment.body - 1
        if marker == _QUANTISATION and _has_zero(data[segment.body + 2 : segment.header_end]):
            return ContainerCheck("a quantisation table contains a zero", checksum=True)
        bare &= marker not in APPLICATION or marker in (_JFIF, ADOBE)
        if marker == SOS:
            if frame < 0:
                return ContainerCheck("it has a scan before its frame header")
            if headers_only:
                return _jpeg(data, frame, bare, segment.end)
            if segment.end == len(data):
                break  # no marker follows
            scan = segment.header_end if scan == 0 else -1
            if scans:
                scans.add(data[segment.body + 2 : segment.header_end], data, segment.header_end, segment.end)
    return ContainerCheck("it ends without an end-of-image marker")


def _has_zero(tables: bytes) -> bool:
    """Return True if a quantisation table contains a zero, which T.81 (B.2.4.1) forbids.

    Decoders silently lose that frequency in every block.
    """
    at = 0
    while at < len(tables):
        width = 2 if tables[at] >> 4 else 1
        values = tables[at + 1 : at + 1 + 64 * width]
        if any(not any(values[i : i + width]) for i in range(0, len(values), width)):
            return True
        at += 1 + 64 * width
    return False


def _begin(data: bytes, segment: Segment, frame: int) -> Scans | None:
    """Return the Scans object of a frame; None if scans of this kind of frame are not checked.

    Raises ScanProblem if the frame header is truncated or is the second one.
    """
    if segment.header_end - segment.body < _SHORTEST_FRAME:
        raise ScanProblem("its frame header is truncated")
    if frame >= 0 and segment.marker not in _HIERARCHICAL | _LOSSLESS:
        raise ScanProblem("it has two frame headers")
    if segment.marker not in FOLLOWED or data[segment.body + 2] != 8:
        return None
    return Scans(segment.marker, data[segment.body + 2 : segment.header_end])


def _end(data: bytes, frame: int, scans: Scans | None, bare: bool, scan: int, end: int) -> ContainerCheck:
    if frame < 0:
        return ContainerCheck("it has no image data")
    missing = scans.missing() if scans else None
    return ContainerCheck(missing) if missing else _jpeg(data, frame, bare, scan, end)


def _jpeg(data: bytes, frame: int, bare: bool, scan: int, end: int = 0) -> ContainerCheck:
    """Return the chain of a complete JPEG.

    `frame` is the offset of the frame marker. `bare` is True if there is no metadata.
    """
    marker, bits = data[frame], data[frame + 3]
    kinds = (
        (marker == 0xF7, "JPEG-LS"),
        (marker in _LOSSLESS, "lossless JPEG"),
        (marker in _HIERARCHICAL, "hierarchical JPEG"),
        (marker > 0xC8, "arithmetic-coded JPEG"),
    )
    kind = next((name for applies, name in kinds if applies), None) or (f"{bits}-bit JPEG" if bits != 8 else None)
    # Every decoder reads baseline, extended and progressive with Huffman codes.
    plain = kind is None and marker <= 0xC2
    height, width = struct.unpack_from(">HH", data, frame + 4)
    if not height:
        return ContainerCheck("it is a JPEG whose height is in a DNL segment after its scan", unsupported=True)
    simple = bare and plain and data[frame + 8] in (1, 3)
    return ContainerCheck(plain=plain, kind=kind, size=(width, height) if simple else None, scan=scan, end=end)


def _next_marker(data: bytes, at: int) -> tuple[int | None, int]:
    """Return the marker at or after `at` and the start of its segment.

    Fill bytes and garbage are skipped as libjpeg does.
    """
    if data[at : at + 1] == b"\xff" and data[at + 1 : at + 2] not in _NO_MARKER:
        return data[at + 1], at + 2
    marker = _MARKER.search(data, at)
    return (data[marker.end() - 1], marker.end()) if marker else (None, len(data))


def jpeg_end(data: bytes) -> int:
    """Return the offset after the EOI of a JPEG; 0 if there is no EOI. Fast if the file ends there."""
    if data.find(b"\xff\xd9") == len(data) - 2:
        return len(data)
    return next((segment.end for segment in segments(data) if segment.marker == EOI), 0)


def jpeg_pixels(data: bytes) -> bytes:
    """Return the segments of a complete JPEG that determine its pixels.

    These are all segments except application segments, comments and data after EOI. Adobe's segment is included,
    because it defines the colours.
    """
    return b"".join(
        data[segment.body - 1 : segment.end]
        for segment in segments(data)
        if segment.marker != EOI and (segment.marker == ADOBE or not _is_extra(segment.marker))
    )


def _is_extra(marker: int) -> bool:
    return marker in APPLICATION or marker == COMMENT


def jpeg_without(data: bytes, end: int, metadata: bool) -> tuple[bytes, tuple[str, ...]]:
    """Return the JPEG without data after its `end`, and the names of the changes.

    With `metadata` its metadata is dropped too. The rest is unchanged byte for byte, and so are the pixels; without
    changes `data` itself is returned. The index (MPF) of pictures after the end is dropped with them: Pillow would take
    the rest for a broken MPO.
    """
    trailer = 0 < end < len(data)
    if not trailer and not metadata:
        return data, ()
    parts, at, stripped = [], 0, False
    for segment in segments(data, headers_only=not end):
        piece = _replacement(data, segment, trailer, metadata)
        if piece is not None:
            stripped |= metadata and not _is_index(data, segment)
            parts += [data[at : segment.start], piece]
            at = segment.end
    parts.append(data[at : end or len(data)])
    dropped = (trailer, "trailer_dropped"), (stripped, "metadata_stripped")
    names = tuple(name for happened, name in dropped if happened)
    return (b"".join(parts) if names else data), names


def _is_index(data: bytes, segment: Segment) -> bool:
    return segment.marker == _PROFILE and data[segment.body + 2 : segment.body + 6] == b"MPF\0"


def _replacement(data: bytes, segment: Segment, trailer: bool, metadata: bool) -> bytes | None:
    """Return the bytes that replace a segment; None to keep it.

    Metadata that defines the meaning of colours is kept: JFIF without its thumbnail, Adobe's segment, the profile.
    """
    if not _is_extra(segment.marker) or segment.end < 0:
        return None
    if not metadata:
        return b"" if trailer and _is_index(data, segment) else None
    body = data[segment.body + 2 : segment.end]
    if segment.marker == _JFIF and body.startswith(b"JFIF\0") and len(body) >= 14:
        return b"\xff\xe0\0\x10" + body[:12] + b"\0\0" if len(body) > 14 else None
    if segment.marker == _PROFILE and body.startswith(b"ICC_PROFILE\0"):
        return None
    return None if segment.marker == ADOBE and body.startswith(b"Adobe") else b""
