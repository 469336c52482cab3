"""The structure of a file: a chain of markers, chunks or directories, checked without decoding pixels.

Pillow and the trainer's decoder disagree about files with a broken chain (measured: one raises where the other crashes,
hangs or invents pixels), so such files are rejected before either of them reads them. Each format has its own file.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContainerCheck:
    """Result of a structure check. `problem` is None for a complete file.

    The reason of a problem is corrupt if `checksum` is True (the file contradicts itself), and unsupported_format if
    `unsupported` is True (an undamaged file of an unsupported kind). Otherwise it is truncated. `plain` is True if all
    decoders read this kind of file alike. `kind` names a kind that few decoders read. `bad_extra` is True for a PNG
    with chunks that the pixels do not need and that break decoders.

    `size` is width and height in pixels if the header is sufficient: 8-bit grey or RGB without EXIF, colour profile or
    second picture. Otherwise it is None. `scan` is the offset of the scan of a JPEG that has one scan and nothing after
    it, as cameras write it; otherwise 0. `end` is the offset of the end of the picture; 0 if unknown. `warnings` are
    those of Picture.
    """

    problem: str | None = None
    checksum: bool = False
    plain: bool = False
    kind: str | None = None
    bad_extra: bool = False
    size: tuple[int, int] | None = None
    scan: int = 0
    end: int = 0
    unsupported: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Reason code of `problem`."""
        if self.unsupported:
            return "unsupported_format"
        return "corrupt" if self.checksum else "truncated"


def check_webp_container(data: bytes, headers_only: bool = False) -> ContainerCheck:
    """Check that a WebP has the bytes that its header announces; other RIFF files have an empty chain."""
    if len(data) >= 12 and data[8:12] != b"WEBP":
        return ContainerCheck()
    announced = int.from_bytes(data[4:8], "little") + 8
    return ContainerCheck(f"it has only {len(data)} of {announced} bytes" if announced > len(data) else None)
