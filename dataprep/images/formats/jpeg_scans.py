"""Check the scans of a JPEG by their headers: all coefficients are present, and each scan has enough bytes.

libjpeg decodes an incomplete JPEG without a warning. Without its last scans a progressive JPEG is blurred, a missing
colour component becomes grey, and a file of 6 KB can decode to a grey picture of any size. ITU-T T.81 allows an encoder
to omit scans, but no tested encoder does (libjpeg-turbo with five kinds of scan scripts, mozjpeg, the encoders of 78
progressive files in Debian's packages). So a JPEG with missing scans is treated as truncated.
"""

from dataclasses import dataclass, field

BASELINE, EXTENDED, PROGRESSIVE = 0xC0, 0xC1, 0xC2
_ARITHMETIC, _ARITHMETIC_PROGRESSIVE = 0xC9, 0xCA
HUFFMAN = frozenset([BASELINE, EXTENDED, PROGRESSIVE])
FOLLOWED = HUFFMAN | {_ARITHMETIC, _ARITHMETIC_PROGRESSIVE}
# Each scan of a flat picture has 40 bytes and costs time for all its blocks: 1,500 scans of 4 megapixels take 7 s. One
# scan per coefficient of three components, the longest sensible script, is 1 + 3 * 63 = 190.
MAX_SCANS = 200
_LAST = 63
_BLOCK = 8
_MAX_BIT = 13  # largest point transform that libjpeg accepts


class ScanProblem(Exception):
    """The scans contradict each other or the frame header. The text describes the contradiction."""


@dataclass(slots=True)
class _Component:
    """A colour component.

    `arrived` is the lowest bit received so far per coefficient in zigzag order; -1 if none.
    """

    name: int
    across: int
    down: int
    arrived: list[int] = field(default_factory=lambda: [-1] * (_LAST + 1))


@dataclass(frozen=True, slots=True)
class _Header:
    """A scan header: its components, the band of coefficients, the previous bit (0: none) and the bit of this scan."""

    components: list[_Component]
    first: int
    last: int
    before: int
    bit: int


class Scans:
    """The scans of one frame, in file order. Raises ScanProblem if the frame header contradicts itself."""

    def __init__(self, marker: int, frame: bytes) -> None:
        """`marker` is the marker of the frame, `frame` its header without the length."""
        if len(frame) < 9 or len(frame) != 6 + 3 * frame[5]:
            raise ScanProblem("the length of its frame header does not fit its number of components")
        self._huffman = marker in HUFFMAN
        self._progressive = marker in (PROGRESSIVE, _ARITHMETIC_PROGRESSIVE)
        self._height, self._width = int.from_bytes(frame[1:3], "big"), int.from_bytes(frame[3:5], "big")
        self._components = [
            _Component(frame[at], frame[at + 1] >> 4, frame[at + 1] & 15) for at in range(6, len(frame), 3)
        ]
        if not all(1 <= c.across <= 4 and 1 <= c.down <= 4 for c in self._components):
            raise ScanProblem("its frame header has a sampling factor outside 1 to 4")
        self._number = 0

    def add(self, header: bytes, data: bytes, start: int, end: int) -> None:
        """Add a scan: its `header` without the length, its coded bits data[start:end]. Raises ScanProblem."""
        self._number += 1
        if self._number > MAX_SCANS:
            raise ScanProblem(f"it has more than {MAX_SCANS} scans")
        scan = self._read(header)
        for component in scan.components:
            self._arrive(component, scan)
        if self._huffman:
            self._check_bytes(scan, data, start, end)

    def missing(self) -> str | None:
        """Return a phrase for what is missing after the last scan; None if the scans are complete."""
        for number, component in enumerate(self._components, 1):
            incomplete = [at for at, bit in enumerate(component.arrived) if bit != 0]
            if len(incomplete) > _LAST and set(component.arrived) == {-1}:
                return f"no scan contains component {number} of {len(self._components)}"
            if incomplete:
                return (
                    f"its last scans are missing: {len(incomplete)} of 64 coefficients of component {number} "
                    "are incomplete"
                )
        return None

    def _read(self, header: bytes) -> _Header:
        count = header[0] if header else 0
        if not 1 <= count <= 4 or len(header) != 4 + 2 * count:
            raise ScanProblem(f"the header of scan {self._number} is damaged")
        components: list[_Component] = []
        for name in header[1 : 1 + 2 * count : 2]:
            # As in libjpeg: components of the same name are read in the order of the frame header.
            fits = (c for c in self._components if c.name == name and not any(c is other for other in components))
            component = next(fits, None)
            if component is None:
                raise ScanProblem(f"scan {self._number} has a component that is missing from the frame header")
            components.append(component)
        if not self._progressive:
            # libjpeg reads a sequential scan in full, whatever its header says here.
            return _Header(components, 0, _LAST, 0, 0)
        first, last, bits = header[-3:]
        self._check_band(len(components), first, last, bits >> 4, bits & 15)
        return _Header(components, first, last, bits >> 4, bits & 15)

    def _check_band(self, components: int, first: int, last: int, before: int, bit: int) -> None:
        """Raise ScanProblem for a progressive scan that libjpeg rejects (start_pass in jdphuff.c)."""
        sound = last == 0 if first == 0 else first <= last <= _LAST and components == 1
        if not sound or bit > _MAX_BIT or (before and bit != before - 1):
            raise ScanProblem(f"the header of scan {self._number} is damaged")

    def _arrive(self, component: _Component, scan: _Header) -> None:
        expected = scan.before if scan.before else -1
        arrived = component.arrived
        if (scan.first and arrived[0] < 0) or any(bit != expected for bit in arrived[scan.first : scan.last + 1]):
            raise ScanProblem(f"scan {self._number} is out of order: an earlier scan is missing or repeated")
        arrived[scan.first : scan.last + 1] = [scan.bit] * (scan.last + 1 - scan.first)

    def _check_bytes(self, scan: _Header, data: bytes, start: int, end: int) -> None:
        """Raise ScanProblem if a scan has too few bytes for its blocks.

        In a sequential scan, each block has a code for DC and one for AC, of at least one bit each. In a progressive DC
        scan, each block has one bit. A progressive AC scan cannot be checked, because one code covers up to 32,767
        empty blocks.
        """
        blocks = self._blocks(scan.components) if scan.first == 0 else 0
        bits = blocks * (1 if self._progressive else 2)
        size = end - start
        if size * 4 < bits:  # near the bound: count exactly, without stuffing
            size -= data.count(b"\xff\0", start, end)
        if size * 8 < bits:
            raise ScanProblem(
                f"scan {self._number} has {size} bytes, too few for the {blocks} blocks "
                f"of {self._width} x {self._height} pixels"
            )

    def _blocks(self, components: list[_Component]) -> int:
        """Return the number of blocks in a scan.

        A scan with several components is padded to whole units, a scan with one component is not.
        """
        across, down = max(c.across for c in self._components), max(c.down for c in self._components)
        if len(components) > 1:
            units = _ceil(self._width, _BLOCK * across) * _ceil(self._height, _BLOCK * down)
            return units * sum(c.across * c.down for c in components)
        only = components[0]
        return _ceil(self._width * only.across, _BLOCK * across) * _ceil(self._height * only.down, _BLOCK * down)


def _ceil(value: int, step: int) -> int:
    return -(-value // step)
