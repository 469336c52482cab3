"""Classify warnings that C decoders print while they decode an image: damaged pixels or harmless.

libjpeg fills the rest of a damaged image with grey and prints one line. The texts are those of libjpeg's jerror.h and
of libpng.
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
# The pixels of a PNG have checksums, verified at build time; libpng's warnings concern other chunks.
_HARMLESS_PNG = (
    ("libpng warning: iCCP", "png_iccp"),
    ("libpng warning: IDAT: Extra compressed data", "png_extra_data"),
    ("libpng warning: IDAT: Too much image data", "png_extra_data"),
    ("libpng warning:", "png_other"),
)


@dataclass(frozen=True)
class Complaint:
    """A decoder message, counted under `name`. `damage` is True if the pixels are wrong."""

    name: str
    text: str
    damage: bool


def complaints(data: bytes, decode: Callable[[bytes], str]) -> list[Complaint]:
    """Return the decoder messages about the JPEG or PNG `data`.

    `decode` decodes an image and returns the printed text. A message that is not repeated on a second decode does not
    belong to the image. If all messages about a JPEG are harmless, it is decoded again without the segments that caused
    them, to find hidden damage.
    """
    printed = decode(data)
    if not printed:
        return []
    repeated = set(_lines(decode(data)))
    visible = [_classify(line, data) for line in _lines(printed) if line in repeated]
    if visible and data.startswith(b"\xff\xd8") and not any(complaint.damage for complaint in visible):
        bare = bare_jpeg(data, padded=any(complaint.name == _PADDING for complaint in visible))
        hidden = [_classify(line, bare) for line in _lines(decode(bare))]
        if any(complaint.damage for complaint in hidden):  # then the zeros are overwritten scan data
            visible = [complaint for complaint in visible if complaint.name != _PADDING]
        visible += [complaint for complaint in hidden if complaint not in visible]
    return visible


def _lines(printed: str) -> list[str]:
    return [line for line in dict.fromkeys(line.strip() for line in printed.splitlines()) if line]


def _classify(line: str, data: bytes) -> Complaint:
    if data.startswith(b"\xff\xd8"):
        return _of_jpeg(line, data)
    return Complaint(_named(line, _HARMLESS_PNG) or OTHER, line, damage=False)


def _of_jpeg(line: str, data: bytes) -> Complaint:
    """Classify a message about a JPEG. A message that is not known to be harmless means wrong pixels."""
    name = _named(line, _HARMLESS_JPEG)
    surplus = _SURPLUS.fullmatch(line)
    if surplus and name is None:
        name = _name_surplus(data, int(surplus[1]), int(surplus[2], 16))
    return Complaint(name or DAMAGED, line, damage=name is None)


def _named(line: str, table: tuple[tuple[str, str], ...]) -> str | None:
    return next((name for start, name in table if line.startswith(start)), None)


def _name_surplus(data: bytes, count: int, marker: int) -> str | None:
    """Return the name for `count` extraneous bytes before a marker; None if they indicate damage."""
    if marker in _RESTARTS and (restarted := with_restart_at_end(data)) and marker == restarted.marker:
        marker = EOI  # the marker in the file itself
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
