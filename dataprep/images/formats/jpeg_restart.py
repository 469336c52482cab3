"""Rewrite a CMYK JPEG so that libjpeg reports surplus data after its last pixel.

In a sequential JPEG of one scan libjpeg stops reading at the last pixel. So a restart marker is added at the end of the
scan, followed by one more row of units: empty blocks in the codes of the file's tables. To decode them libjpeg searches
for the marker and reports the bytes that it skips; it prints nothing for a sound JPEG. The rewritten JPEG is decoded
for these messages only.
"""

from typing import NamedTuple

from dataprep.images.formats.jpeg import EOI, SOS, Segment, segments

_BASELINE, _EXTENDED = 0xC0, 0xC1
_TABLES, _INTERVAL = 0xC4, 0xDD
_RST0 = 0xD0
_MAX_UINT16 = 0xFFFF  # limit of an interval and of a height
_BLOCK = 8

Codes = dict[tuple[int, int], tuple[int, int]]  # (0: DC or 1: AC, table number) -> code and length of symbol 0


class _Frame(NamedTuple):
    segment: Segment
    units_across: int
    units_down: int
    unit_height: int
    blocks: dict[int, int]  # per unit, by component


class Restarted(NamedTuple):
    """A rewritten JPEG, and the restart marker in it after the coded bits of the scan."""

    data: bytes
    marker: int


def with_restart_at_end(data: bytes) -> Restarted | None:
    """Return the JPEG with a restart at the end of its only scan.

    None if it does not have four components in one scan, or if no restart interval can end there: its own interval does
    not, or the scan has more than 65,535 units.
    """
    parts = list(segments(data))
    frames = [part for part in parts if part.marker in (_BASELINE, _EXTENDED)]
    scans = [part for part in parts if part.marker == SOS]
    if len(frames) != 1 or len(scans) != 1 or parts[-1].marker != EOI or frames[0].start > scans[0].start:
        return None
    frame, scan = _read_frame(data, frames[0]), scans[0]
    header = data[scan.body + 2 : scan.header_end]
    if frame is None or len(header) != 12 or header[0] != 4 or scan.surplus:
        return None
    units = frame.units_across * frame.units_down
    own = [int.from_bytes(data[part.body + 2 : part.end], "big") for part in parts if part.marker == _INTERVAL]
    interval = (own[-1] if own else 0) or units
    height = (frame.units_down + 1) * frame.unit_height
    row = _empty_row(frame, header, _codes(data, parts))
    if row is None or units % interval or interval > _MAX_UINT16 or height > _MAX_UINT16:
        return None
    marker = _RST0 + (units // interval - 1) % 8
    body = frame.segment.body
    end = parts[-1].start
    rewritten = b"".join(
        (
            data[: body + 3],
            height.to_bytes(2, "big"),
            data[body + 5 : scan.start],
            bytes((0xFF, _INTERVAL, 0, 4)) + interval.to_bytes(2, "big"),
            data[scan.start : end],
            bytes((0xFF, marker)) + row,
            bytes((0xFF, EOI)),
        )
    )
    return Restarted(rewritten, marker)


def _read_frame(data: bytes, segment: Segment) -> _Frame | None:
    body = data[segment.body + 2 : segment.end]
    if len(body) != 18 or body[5] != 4:
        return None
    height, width = int.from_bytes(body[1:3], "big"), int.from_bytes(body[3:5], "big")
    factors = {body[at]: (body[at + 1] >> 4, body[at + 1] & 15) for at in range(6, 18, 3)}
    across, down = max(f[0] for f in factors.values()), max(f[1] for f in factors.values())
    if len(factors) != 4 or not (width and height and across and down):
        return None
    return _Frame(
        segment,
        -(-width // (_BLOCK * across)),
        -(-height // (_BLOCK * down)),
        _BLOCK * down,
        {name: h * v for name, (h, v) in factors.items()},
    )


def _codes(data: bytes, parts: list[Segment]) -> Codes:
    """Return the code of symbol 0 in each Huffman table: no change of DC, and end of block."""
    codes: Codes = {}
    for part in parts:
        at = part.body + 2
        while part.marker == _TABLES and at + 17 <= part.end:
            kind, number = data[at] >> 4, data[at] & 15
            counts = data[at + 1 : at + 17]
            symbols = data[at + 17 : at + 17 + sum(counts)]
            codes.pop((kind, number), None)
            position = symbols.find(0)
            code = shorter = 0
            for length, count in enumerate(counts, 1):
                if 0 <= position - shorter < count:
                    codes[kind, number] = code + position - shorter, length
                    break
                shorter += count
                code = (code + count) << 1
            at += 17 + sum(counts)
    return codes


def _empty_row(frame: _Frame, header: bytes, codes: Codes) -> bytes | None:
    """Return the coded bits of a row of empty units; None if a table has no code for them."""
    bits = ""
    for name, tables in zip(header[1:9:2], header[2:9:2], strict=True):
        dc, ac = codes.get((0, tables >> 4)), codes.get((1, tables & 15))
        if dc is None or ac is None or name not in frame.blocks:
            return None
        bits += (f"{dc[0]:0{dc[1]}b}" + f"{ac[0]:0{ac[1]}b}") * frame.blocks[name]
    bits *= frame.units_across
    bits += "1" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
