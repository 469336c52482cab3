"""Check the structure of a TIFF by its directories."""

from dataprep.images.formats.container import ContainerCheck
from dataprep.images.formats.tiff.strips import damaged_strip, exceeds_file, reported_damage
from schemas.images.tiff import (
    BITS,
    COMPRESSION,
    HEIGHT,
    PHOTOMETRIC,
    SAMPLE_FORMAT,
    WIDTH,
    read_directories,
    unsupported_kind,
)


def check_tiff_container(data: bytes, headers_only: bool = False) -> ContainerCheck:
    """Check that the first directory is a picture whose strips or tiles are complete.

    Raw sensor values and a thumbnail of another picture are `unsupported`.
    """
    directories = list(read_directories(data))
    if not directories:
        return ContainerCheck()  # Pillow reports what is wrong with it
    if kind := unsupported_kind(data, directories):
        return ContainerCheck(f"it is {kind}", unsupported=True)
    problem = None if headers_only else damaged_strip(data, directories[0])
    return ContainerCheck(problem, checksum=not exceeds_file(data, directories[0]))


def reported_tiff_damage(data: bytes) -> tuple[str, str] | None:
    """Return the reason and libtiff's message for damage in the first picture.

    Fax and JPEG strips are decoded for this.
    """
    first = next(read_directories(data), None)
    message = reported_damage(data, first) if first else None
    return ("truncated" if exceeds_file(data, first or {}) else "corrupt", message) if message else None


def describe_tiff(data: bytes) -> str | None:
    """Describe the storage of the first picture of a TIFF that Pillow cannot read; None without a directory."""
    first = next(read_directories(data), None)
    if first is None or not {WIDTH, HEIGHT} <= first.keys():
        return None
    bits = "x".join(map(str, first.get(BITS, (1,))))
    kinds = [f"photometric {first[PHOTOMETRIC][0]}"] if first.get(PHOTOMETRIC) else []
    kinds += [f"sample format {first[SAMPLE_FORMAT][0]}"] if first.get(SAMPLE_FORMAT) else []
    kinds += [f"compression {first[COMPRESSION][0]}"] if first.get(COMPRESSION) else []
    return f"a TIFF of {bits} bits per pixel ({', '.join(kinds)})"
