"""Pack folders and members into archives, exactly, and scan them."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dataprep.items import Ignored, Item, Notice, Reject, ScanEntry
from dataprep.options import SourceOptions
from dataprep.sources import find_source

PLAIN = SourceOptions()


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def tar_bytes(members: Iterable[tuple[str, bytes]], **options: Any) -> bytes:
    """A tar of these files; a name that ends with a slash is a folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", **options) as made:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            made.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def tar_of(folder: Path, path: Path, prefix: str = "") -> Path:
    path.write_bytes(
        tar_bytes((prefix + f.relative_to(folder).as_posix(), f.read_bytes()) for f in files_below(folder))
    )
    return path


def tar_of_tars(folder: Path, path: Path) -> Path:
    inner = []
    for one in sorted(path for path in folder.iterdir() if path.is_dir()):
        members = [(f.relative_to(one).as_posix(), f.read_bytes()) for f in files_below(one)]
        inner.append((f"{one.name}.tar", tar_bytes(members)))
    path.write_bytes(tar_bytes(inner))
    return path


def zip_of(folder: Path, path: Path, method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as made:
        for file in files_below(folder):
            made.write(file, file.relative_to(folder).as_posix())
    return path


def compressed(data: bytes, kind: str) -> bytes:
    if kind == "zst":
        import zstandard

        return zstandard.ZstdCompressor(write_checksum=True).compress(data)
    return {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[kind](data)


def scan(root: Path, layout: str = "tar", options: SourceOptions = PLAIN) -> list[ScanEntry]:
    return list(find_source(layout).scan(root, options))


def items(found: list[ScanEntry]) -> dict[str, Item]:
    listed = [entry for entry in found if isinstance(entry, Item)]
    assert len({item.key for item in listed}) == len(listed)
    return {item.key: item for item in listed}


def reasons(found: list[ScanEntry]) -> dict[str, str]:
    return {entry.key: entry.reason for entry in found if isinstance(entry, Reject)}


def rules(found: list[ScanEntry]) -> dict[str, str]:
    return {entry.key: entry.rule for entry in found if isinstance(entry, Ignored)}


def notices(found: list[ScanEntry]) -> list[str]:
    return [entry.text for entry in found if isinstance(entry, Notice)]
