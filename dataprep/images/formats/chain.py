"""The structure of a file: a chain of markers, chunks or directories, walked without decoding a pixel.

Pillow and the trainer's decoder disagree about files whose chain is broken (measured: one raises where the other
crashes, spins or invents pixels), so a broken chain decides before either of them is asked.
Each format has a file of its own.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chain:
    """What a chain says. `problem` is None for a whole one; `checksum` tells one that contradicts itself (corrupt) from
    missing bytes (truncated), `unsupported` a sound one of a kind that is not read.

    `plain` says that every decoder reads this kind of file alike; `kind` names one that few decoders read; `deep`
    says that it holds more than eight bits a channel; `bad_extra` that a PNG holds chunks which pixels do not need and
    decoders trip over. `size` is width and height in pixels where the header alone tells all there is to know: 8-bit
    grey or RGB with no EXIF, colour profile or second picture; else None. `scan` is where the scan of a JPEG begins
    that is one scan and nothing behind it, as cameras write it; else 0. `end` is where the picture ends and what is
    no part of it begins; 0 where that is not known. `warnings` are those of Picture.
    """

    problem: str | None = None
    checksum: bool = False
    plain: bool = False
    kind: str | None = None
    deep: bool = False
    bad_extra: bool = False
    size: tuple[int, int] | None = None
    scan: int = 0
    end: int = 0
    unsupported: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """The reason code of `problem`."""
        if self.unsupported:
            return "unsupported_format"
        return "corrupt" if self.checksum else "truncated"


def webp_chain(data: bytes, headers_only: bool = False) -> Chain:
    """Whether all of the file is there that its header announces; of another RIFF file nothing is said."""
    if len(data) >= 12 and data[8:12] != b"WEBP":
        return Chain()
    announced = int.from_bytes(data[4:8], "little") + 8
    return Chain(f"it has {len(data)} of {announced} bytes" if announced > len(data) else None)
