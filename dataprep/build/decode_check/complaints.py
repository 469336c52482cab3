"""Classifies what C decoders print about an image that they decode all the same: damage, or an oddity without effect.

libjpeg fills the rest of a damaged picture with grey or smear and prints one line. The texts are those of libjpeg's
jerror.h and of libpng.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from dataprep.images.formats.jpeg import EOI, SOS, segments
from dataprep.images.formats.jpeg_restart import with_restart_at_end
from dataprep.images.formats.jpeg_rewrite import bare_jpeg

DAMAGED = "damaged_jpeg"
OTHER = "decoder_message"
_RESTARTS = range(0xD0, 0xD8)
_PADDING = "jpeg_zero_padding"
_SURPLUS = re.compile(r"Corrupt JPEG data: (\d+) extraneous bytes before marker 0x([0-9a-f]{2})")
_HARMLESS_JPEG = (
    ("Unknown Adobe color transform code", "jpeg_adobe_transform"),
    ("Warning: unknown JFIF revision number", "jpeg_jfif_revision"),
    ("Invalid SOS parameters for sequential JPEG", "jpeg_scan_parameters"),
    ("Corrupt JPEG data: bad ICC marker", "jpeg_icc"),
)
# Pixels of a PNG are under checksums, which are verified while a shard is built; what libpng warns of is beside them.
_HARMLESS_PNG = (
    ("libpng warning: iCCP", "png_iccp"),
    ("libpng warning: IDAT: Extra compressed data", "png_extra_data"),
    ("libpng warning: IDAT: Too much image data", "png_extra_data"),
    ("libpng warning:", "png_other"),
)


@dataclass(frozen=True)
class Complaint:
    """One message about an image: the `name` to count it by, its `text`, and if it tells of `damage` to pixels."""

    name: str
    text: str
    damage: bool


def complaints(data: bytes, decode: Callable[[bytes], str]) -> list[Complaint]:
    """What the decoder has to say about the JPEG or PNG `data`; `decode` returns what it prints about an image.

    A message that is not printed again about the same image is of something else. Where all messages about a JPEG are
    harmless, it is decoded once more without what they are about.
    """
    printed = decode(data)
    if not printed:
        return []
    again = set(_lines(decode(data)))
    found = [_classify(line, data) for line in _lines(printed) if line in again]
    if found and data.startswith(b"\xff\xd8") and not any(complaint.damage for complaint in found):
        bare = bare_jpeg(data, padded=any(complaint.name == _PADDING for complaint in found))
        hidden = [_classify(line, bare) for line in _lines(decode(bare))]
        if any(complaint.damage for complaint in hidden):  # then the zeros are a part of the scan that was overwritten
            found = [complaint for complaint in found if complaint.name != _PADDING]
        found += [complaint for complaint in hidden if complaint not in found]
    return found


def _lines(printed: str) -> list[str]:
    return [line for line in dict.fromkeys(line.strip() for line in printed.splitlines()) if line]


def _classify(line: str, data: bytes) -> Complaint:
    if data.startswith(b"\xff\xd8"):
        return _of_jpeg(line, data)
    return Complaint(_named(line, _HARMLESS_PNG) or OTHER, line, damage=False)


def _of_jpeg(line: str, data: bytes) -> Complaint:
    """A message that is not known to be harmless counts as damage: all others of libjpeg's tell of wrong pixels."""
    name = _named(line, _HARMLESS_JPEG)
    surplus = _SURPLUS.fullmatch(line)
    if surplus and name is None:
        name = _name_surplus(data, int(surplus[1]), int(surplus[2], 16))
    return Complaint(name or DAMAGED, line, damage=name is None)


def _named(line: str, table: tuple[tuple[str, str], ...]) -> str | None:
    return next((name for start, name in table if line.startswith(start)), None)


def _name_surplus(data: bytes, count: int, marker: int) -> str | None:
    """The name of `count` bytes that belong to nothing before a marker, None if they are what damage has left."""
    if marker in _RESTARTS and (restarted := with_restart_at_end(data)) and marker == restarted.marker:
        marker = EOI  # which stands there in the file itself
    behind_scan = False
    for segment in segments(data):
        if segment.marker == EOI:
            before = data[: segment.start].rstrip(b"\xff")
            padded = marker == EOI and count <= len(before) - len(before.rstrip(b"\0"))
            return _PADDING if padded else None
        if not behind_scan and segment.marker == marker and segment.surplus == count:
            return "jpeg_surplus_bytes"
        behind_scan |= segment.marker == SOS
    return None
