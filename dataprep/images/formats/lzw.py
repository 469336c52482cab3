"""Count the values in an LZW stream of a GIF or TIFF without decoding it; damage changes the count."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_TABLE = 4096  # codes of 12 bits
_BLOCK = 4096  # codes read together once the table is full
_SHORTEST_SEGMENT = 64  # bytes between clear codes; encoders that avoid compression clear every 100 codes or so


@dataclass(frozen=True, slots=True)
class LzwCount:
    """The result of a count.

    `values` is the number of decoded bytes or pixels. `ended` is True if the end code was reached. `broken` is True if
    a code is not yet in the table.
    """

    values: int
    ended: bool
    broken: bool = False


def count_lzw(data: bytes, code_bits: int, most_significant_first: bool) -> LzwCount | None:
    """Count the values of a stream whose values have `code_bits` bits: 8 in a TIFF, 2 to 8 in a GIF.

    A TIFF packs codes from the most significant bit and widens them one code early; a GIF does neither. Returns None
    for a stream that consists almost only of clear codes, which would take minutes. Other streams take about 50 ms per
    MB, since NumPy reads all codes between two clear codes together.
    """
    stream = _Stream(data, code_bits, most_significant_first)
    at = values = 0
    for _ in range(100 + len(data) // _SHORTEST_SEGMENT):
        segment = stream.segment(at)
        values += segment.values
        at = segment.end
        if segment.closed_by != stream.clear:
            return LzwCount(values, segment.closed_by == stream.clear + 1, segment.broken)
    return None


@dataclass(frozen=True, slots=True)
class _Segment:
    """The codes up to a clear or end code.

    `end` is the bit after that code. `closed_by` is that code, or -1 if the data ends without one.
    """

    values: int
    end: int
    closed_by: int
    broken: bool = False


class _Stream:
    def __init__(self, data: bytes, code_bits: int, most_significant_first: bool) -> None:
        self.clear = 1 << code_bits
        self._first = self.clear + 2
        self._bits = 8 * len(data)
        self._from_left = most_significant_first
        padded = np.frombuffer(data + bytes(3), np.uint8)
        self._bytes = padded
        # Code k after a clear code has k - 1 entries of its predecessors; their number decides its width.
        growing = np.arange(_TABLE - self._first + 1)
        entries = self._first + np.maximum(growing - 1, 0) + (1 if most_significant_first else 0)
        widths = np.maximum(np.floor(np.log2(entries)).astype(np.int64) + 1, code_bits + 1)
        self._widths = np.minimum(widths, 12)
        self._starts = np.concatenate([[0], np.cumsum(self._widths)])

    def segment(self, at: int) -> _Segment:
        """Read from bit `at` to the next clear or end code."""
        codes = self._codes(at + self._starts[:-1], self._widths)
        close = self._close(codes)
        lengths, broken = self._lengths(codes[:close])
        if broken or close < len(codes):
            end = at + int(self._starts[min(close + 1, len(codes))])
            return _Segment(int(lengths.sum()), end, -1 if broken else int(codes[close]), broken)
        if len(codes) < len(self._widths):
            return _Segment(int(lengths.sum()), self._bits, -1)
        return self._frozen(at + int(self._starts[-1]), lengths)

    def _frozen(self, at: int, lengths: NDArray[np.int64]) -> _Segment:
        """Continue with a full table, which does not change until a clear code."""
        values = int(lengths.sum())
        table = np.ones(_TABLE, np.int64)
        table[self._first :] = lengths[: _TABLE - self._first] + 1
        while True:
            codes = self._codes(at + 12 * np.arange(_BLOCK), np.full(_BLOCK, 12))
            close = self._close(codes)
            values += int(table[codes[:close]].sum())
            if close < len(codes):
                return _Segment(values, at + 12 * (close + 1), int(codes[close]))
            if len(codes) < _BLOCK:
                return _Segment(values, self._bits, -1)
            at += 12 * _BLOCK

    def _codes(self, at: NDArray[np.int64], widths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the codes at these bits, up to the end of the data."""
        count = int(np.searchsorted(at + widths, self._bits, "right"))
        at, widths = at[:count], widths[:count]
        first, shift = at >> 3, at & 7
        one, two, three = (self._bytes[first + i].astype(np.int64) for i in range(3))
        if self._from_left:
            window = (one << 16 | two << 8 | three) >> (24 - shift - widths)
        else:
            window = (one | two << 8 | three << 16) >> shift
        codes: NDArray[np.int64] = window & ((1 << widths) - 1)
        return codes

    def _close(self, codes: NDArray[np.int64]) -> int:
        closing = np.flatnonzero((codes == self.clear) | (codes == self.clear + 1))
        return int(closing[0]) if len(closing) else len(codes)

    def _lengths(self, codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], bool]:
        """Return the number of values of each code, up to the first code that is not in the table, and if there is one.

        The entry that code k + 1 adds is one longer than code k, so each code refers to an earlier one: follow all
        references together, twice as far each time.
        """
        made_by = codes - self._first
        wrong = np.flatnonzero(made_by >= np.arange(len(codes)))
        made_by = made_by[: wrong[0]] if len(wrong) else made_by
        hops = (made_by >= 0).astype(np.int64)
        target = np.where(made_by >= 0, made_by, np.arange(len(made_by)))
        while (hops[target] > 0).any():
            hops, target = hops + hops[target], target[target]
        return hops + 1, bool(len(wrong))
