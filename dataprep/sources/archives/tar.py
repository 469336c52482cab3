"""Members of tar files, plain, inside another tar, or compressed."""

import bz2
import gzip
import io
import lzma
import posixpath
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, BinaryIO

from dataprep.errors import DataprepError, DataRejected
from dataprep.items import ByteRange, Container, Notice, decode_name, encode_name, portable_path, size_and_time
from dataprep.sources.archives.members import Member
from dataprep.sources.unpacked import Entry, unpacked
from dataprep.sources.walk import has_image_name

_BLOCK = 512
_LOOK_AT_MEMBERS = 50
ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_DAMAGE = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError)


def is_tar(path: Path) -> bool:
    """Return True for a file with the name of a tar, compressed or not."""
    return path.name.lower().endswith(ENDINGS) and path.is_file()


def tar_files(path: Path) -> list[Path]:
    """Return the tars of SOURCE: a tar itself, or those in a folder."""
    return [path] if path.is_file() else sorted(one for one in path.iterdir() if is_tar(one))


def is_compressed(path: Path) -> bool:
    """Return True for the name of a compressed tar."""
    return not path.name.lower().endswith(".tar")


def tar_members(path: Path, folder: Path, work: Path | None, notices: list[Notice]) -> Iterator[Member]:
    """Yield the members of a tar that are no folders. A compressed tar is unpacked below `work`.

    `folder` is the folder of SOURCE. Raises DataRejected if the tar is cut or damaged, since its other members are
    unknown.
    """
    if not is_compressed(path):
        container = Container(portable_path(path.relative_to(folder)), *size_and_time(path.stat()))
        with path.open("rb") as file:
            yield from _members(file, path, container, 0, container.size, notices)
        return
    stored = 0
    for values, place in unpacked(path, work, lambda: _decompressed(path)):
        stored += place.length
        if "problem" in values:
            yield Member(values["name"], 0, None, None, tuple(values["problem"]))
        elif "link" in values:
            yield Member(values["name"], 0, None, values["link"])
        else:
            yield Member(values["name"], place.length, place)
    notices.append(Notice(f"{path.name}: {stored / 1e6:,.1f} MB are unpacked into .work until the dataset is sealed"))


def inner_tars(path: Path, folder: Path, notices: list[Notice]) -> Iterator[tuple[str, Iterator[Member]]]:
    """Yield the name of each tar in a tar, and its members at their places in the outer tar.

    Raises DataRejected if one of them is cut or damaged.
    """
    container = Container(portable_path(path.relative_to(folder)), *size_and_time(path.stat()))
    with path.open("rb") as file, path.open("rb") as inner:
        for member in _members(file, path, container, 0, container.size, notices):
            if member.place is None or not member.name.lower().endswith(".tar"):
                yield "", iter([member])
                continue
            start, end = member.place.offset, member.place.offset + member.size
            yield member.name[:-4], _members(inner, path / member.name, container, start, end, notices)


def _members(
    file: BinaryIO, path: Path, container: Container, start: int, end: int, notices: list[Notice]
) -> Iterator[Member]:
    """Yield the members of the tar in the bytes from `start` to `end` of a file."""
    view = _Window(file, start, end)
    try:
        with tarfile.open(fileobj=view, mode="r:", encoding="utf-8", errors="surrogateescape") as archive:
            while (info := archive.next()) is not None:
                archive.members = []  # type: ignore[attr-defined]  # or a million of them stay in memory
                if info.isdir():
                    continue
                if info.offset_data + info.size > end - start and info.isreg():
                    raise tarfile.ReadError(f"it ends inside '{info.name}'")
                yield _member(info, container, start)
            rest = view.read_at(archive.offset, _BLOCK)
    except tarfile.TarError as error:
        raise _damaged(path, error) from None
    if rest.strip(b"\0"):
        raise _damaged(path, tarfile.ReadError(f"the header at byte {archive.offset} is damaged"))
    if len(rest) < _BLOCK:
        notices.append(Notice(f"{path.name} has no end-of-archive marker; if it was cut there, images are missing"))


def _member(info: tarfile.TarInfo, container: Container, start: int) -> Member:
    name = member_name(info.name)
    if info.issym() or info.islnk():
        return Member(name, 0, None, _link_target(info))
    if info.issparse() or not info.isreg():
        kind = "a sparse file" if info.issparse() else "no regular file"
        return Member(name, 0, None, None, ("not_a_regular_file", f"it is {kind} in the archive"))
    return Member(name, info.size, ByteRange(container, start + info.offset_data, info.size))


def _link_target(info: tarfile.TarInfo) -> str:
    """Return the member that a link points to: hard links by name, symbolic links relative to their folder."""
    folder = posixpath.dirname(info.name) if info.issym() else ""
    return member_name(posixpath.normpath(posixpath.join(folder, info.linkname)))


def member_name(name: str) -> str:
    """Return the name of a member without `./` and slashes at its start. `..` is a name like any other."""
    portable = decode_name(encode_name(name))
    return "/".join(part for part in portable.split("/") if part not in ("", "."))


def _decompressed(path: Path) -> Iterator[Entry]:
    """Yield name and bytes of each member of a compressed tar, read once from the beginning."""
    try:
        with _open_compressed(path) as stream, tarfile.open(fileobj=stream, mode="r|", encoding="utf-8") as archive:
            for info in archive:
                archive.members = []  # type: ignore[attr-defined]
                member = _member(info, Container("", 0, 0), 0)
                if info.isdir():
                    continue
                if member.place is None:
                    more = {"link": member.link} if member.problem is None else {"problem": list(member.problem)}
                    yield {"name": member.name} | more, b""
                    continue
                file = archive.extractfile(info)
                assert file is not None
                yield {"name": member.name}, file.read()
            while stream.read(1 << 20):  # the checksum of the compressed data is at its end
                pass
    except (*_DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise _damaged(path, error) from None


def _open_compressed(path: Path) -> "IO[bytes] | gzip.GzipFile":
    name = path.name.lower()
    if name.endswith((".gz", ".tgz")):
        return gzip.GzipFile(path)
    if name.endswith((".bz2", ".tbz2")):
        return bz2.open(path)
    if name.endswith((".xz", ".txz")):
        return lzma.open(path)
    try:
        import zstandard
    except ImportError:
        raise DataprepError(f"{path.name} is compressed with Zstandard: pip install zstandard") from None
    return zstandard.open(path)  # type: ignore[no-any-return]


def _damaged(path: Path, error: BaseException) -> DataRejected:
    text = str(error) or type(error).__name__
    return DataRejected(
        f"{path} is damaged ({text}), so its other images are unknown; copy it again. Nothing is sealed"
    )


def _first_names(path: Path) -> list[str]:
    """Return the names of the first members of an uncompressed tar."""
    names: list[str] = []
    try:
        for member in tar_members(path, path.parent, None, []):
            names.append(member.name)
            if len(names) == _LOOK_AT_MEMBERS:
                break
    except DataprepError:
        pass  # the scan reports it
    return names


def is_tar_source(path: Path, wanted: Callable[[list[str]], bool]) -> bool:
    """Return True if SOURCE is a tar, or a folder of tars only, and its first names are as wanted."""
    if path.is_dir():
        entries = list(path.iterdir())
        if not any(is_tar(one) for one in entries) or any(one.is_dir() or has_image_name(one.name) for one in entries):
            return False
    files = tar_files(path)
    if not files or not is_tar(files[0]):
        return False
    return wanted([] if is_compressed(files[0]) else _first_names(files[0]))


class _Window(io.RawIOBase):
    """The bytes of a file from `start` to `end`, as a file of its own for tarfile."""

    def __init__(self, file: BinaryIO, start: int, end: int) -> None:
        super().__init__()
        self._file, self._start, self._size = file, start, end - start
        self._at = 0

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._at)
        data = self.read_at(self._at, left if size is None or size < 0 else min(size, left))
        self._at += len(data)
        return data

    def read_at(self, at: int, size: int) -> bytes:
        """Return up to `size` bytes from offset `at`."""
        self._file.seek(self._start + at)
        return self._file.read(max(0, min(size, self._size - at)))

    def seek(self, at: int, whence: int = 0) -> int:
        self._at = at if whence == 0 else at + (self._at if whence == 1 else self._size)
        return self._at

    def tell(self) -> int:
        return self._at
