"""Members of zip files, stored or deflated, also in the zip64 format."""

import os
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

from dataprep.errors import DataRejected
from dataprep.items import ByteRange, Container, portable_path, size_and_time
from dataprep.sources.archives.members import Member
from dataprep.sources.archives.tar import member_name

_LOCAL = struct.Struct("<4s22xHH")  # signature, length of the name and of the extra field
_CODECS = {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflate"}
_ENCRYPTED = 1


def zip_members(path: Path, folder: Path) -> Iterator[Member]:
    """Yield the members of a zip that are no folders. `folder` is the folder of SOURCE.

    Raises DataRejected if its list of members is damaged or missing.
    """
    container = Container(portable_path(path.relative_to(folder)), *size_and_time(path.stat()))
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            for info in archive.infolist():
                if not info.is_dir():
                    yield _member(info, container, file.fileno())
    except (zipfile.BadZipFile, struct.error, UnicodeDecodeError, NotImplementedError, EOFError, ValueError) as error:
        raise DataRejected(
            f"{path} is damaged ({error}), so its images are unknown; copy it again. Nothing is sealed"
        ) from None


def _member(info: zipfile.ZipInfo, container: Container, descriptor: int) -> Member:
    name = member_name(info.filename)
    codec = _CODECS.get(info.compress_type)
    if info.flag_bits & _ENCRYPTED:
        return Member(name, 0, None, None, ("unsupported_format", "it is encrypted in the archive"))
    if codec is None:
        kind = zipfile.compressor_names.get(info.compress_type, f"method {info.compress_type}")  # type: ignore[attr-defined]
        problem = f"it is compressed with {kind}; only stored and deflated members are read"
        return Member(name, 0, None, None, ("unsupported_format", problem))
    header = os.pread(descriptor, _LOCAL.size, info.header_offset)
    if len(header) < _LOCAL.size or not header.startswith(b"PK\3\4"):
        return Member(name, 0, None, None, ("corrupt", "the archive's list of members points to other data"))
    _, name_length, extra_length = _LOCAL.unpack(header)
    start = info.header_offset + _LOCAL.size + name_length + extra_length
    return Member(name, info.file_size, ByteRange(container, start, info.compress_size, codec, info.CRC))
