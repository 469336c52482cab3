"""The layouts tar, tars and zip: the folders in member names are classes and splits."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from dataprep.errors import DataRejected
from dataprep.items import Container, Ignored, Item, Notice, Reject, ScanEntry
from dataprep.options import SourceOptions
from dataprep.sources.archives.files import TAR_NAMES, ArchiveFile, base_of, find_archives
from dataprep.sources.archives.index import MemberIndex
from dataprep.sources.archives.member import FILE, Gap, Member, Remark, clean_name
from dataprep.sources.archives.members import OUTSIDE, MemberReader, indexed
from dataprep.sources.archives.recognise import ZIP_NAMES, is_tar_of_tars, is_tar_source, is_zip_source
from dataprep.sources.archives.spool import Opened, open_archive, unpacked_notice, unpacked_size
from dataprep.sources.archives.structure import Structure, find_structure
from dataprep.sources.archives.tar_members import BLOCK, is_tar, tar_members
from dataprep.sources.archives.zip_members import zip_members
from dataprep.sources.source import Source
from dataprep.sources.walk import Tree
from schemas.counting import many
from schemas.names import path_to_key

# Reads the members of an open archive into the index. Called with the archive, its number and the MemberReader.
ReadArchive = Callable[[Opened, ArchiveFile, int, MemberReader], Iterator[ScanEntry]]


class Containers:
    """The files that images are byte ranges of, by number of the archive."""

    def __init__(self) -> None:
        self.all: list[Container] = []
        self._unpacked = self._compressed = 0

    def add(self, opened: Opened) -> None:
        """Note an archive that was read to its end."""
        size = unpacked_size(opened)
        self.all.append(opened.container._replace(size=size))
        if opened.compression:
            self._compressed += 1
            self._unpacked += size

    def notices(self, is_dry_run: bool) -> Iterator[Notice]:
        """Yield the disk space of unpacked archives."""
        if self._compressed:
            yield Notice(unpacked_notice(self._compressed, self._unpacked, is_dry_run))


def read_archives(
    tree: Tree, root: Path, options: SourceOptions, names: re.Pattern[str], members: MemberReader, read: ReadArchive,
    containers: Containers,
) -> Iterator[ScanEntry]:  # fmt: skip
    """Read all archives of SOURCE into the index of `members`, and their files into `containers`."""
    base = base_of(root)
    for archive in find_archives(tree, root, names):
        if not isinstance(archive, ArchiveFile):
            yield archive
            continue
        with open_archive(base, archive.path, options.work) as opened:
            yield from read(opened, archive, len(containers.all), members)
            containers.add(opened)
    yield from members.links()
    yield from containers.notices(options.work is None)


def read_tar(opened: Opened, archive: ArchiveFile, number: int, members: MemberReader) -> Iterator[ScanEntry]:
    """Read the members of a tar. Raises DataRejected if the file is no tar."""
    name = path_to_key(archive.path)
    check_tar(opened, name)
    yield from members.read(tar_members(opened.reader, name), opened.reader, number, name, archive.prefix)


def check_tar(opened: Opened, name: str) -> None:
    """Raise DataRejected if an archive is no tar."""
    if not is_tar(opened.reader.read_at(0, BLOCK)):
        inside = f" {opened.compression.name} data" if opened.compression else ""
        raise DataRejected(f"{name} holds no tar{inside and f' in its{inside}'}: it has no valid header at its start")


def _read_tars(opened: Opened, archive: ArchiveFile, number: int, members: MemberReader) -> Iterator[ScanEntry]:
    """Read a tar of tars, whose inner tars are folders. A tar without inner tars, beside others, is itself a folder."""
    name = path_to_key(archive.path)
    check_tar(opened, name)
    outer = tar_members(opened.reader, name)
    first = next(outer, None)
    if first is None:
        return
    prefix = archive.prefix
    if isinstance(first, Member) and first.kind == FILE and not TAR_NAMES.search(clean_name(first.name)):
        prefix = f"{prefix}/{archive.stem}".lstrip("/")
    event: Member | Gap | Remark | None = first
    while event is not None:
        yield from _read_inner(event, opened, number, members, name, prefix)
        event = next(outer, None)


def _read_inner(
    event: Member | Gap | Remark, opened: Opened, number: int, members: MemberReader, name: str, prefix: str
) -> Iterator[ScanEntry]:
    """Read an inner tar, or any other member of the outer one."""
    path = clean_name(event.name) if isinstance(event, Member) else ""
    if not isinstance(event, Member) or event.kind != FILE or not TAR_NAMES.search(path):
        yield from members.read([event], opened.reader, number, name, prefix)
        return
    folder = TAR_NAMES.sub("", f"{prefix}/{path}" if prefix else path)
    inner = f"{name}/{path_to_key(path)}"
    start = opened.reader.read_at(event.offset, min(BLOCK, event.length))
    if event.problem and not is_tar(start):
        yield Reject(path_to_key(path), *event.problem)
    elif event.length and not is_tar(start):
        yield Reject(
            path_to_key(path), "unsupported_format", "an inner tar must be uncompressed and start with a header"
        )
    else:
        yield from members.open_folder(folder)
        inside = tar_members(opened.reader, inner, event.offset, event.length)
        yield from members.read(inside, opened.reader, number, inner, folder)


def _read_zip(opened: Opened, archive: ArchiveFile, number: int, members: MemberReader) -> Iterator[ScanEntry]:
    name = path_to_key(archive.path)
    if opened.compression or not opened.reader.size:
        raise DataRejected(f"{name} is no zip: it does not start as one")
    yield from members.read(zip_members(opened.reader, name), opened.reader, number, name, archive.prefix)


def _scan(root: Path, options: SourceOptions, names: re.Pattern[str], read: ReadArchive) -> Iterator[ScanEntry]:
    tree = Tree(root, options)
    containers = Containers()
    with indexed() as index:
        members = MemberReader(tree, index)
        yield from read_archives(tree, root, options, names, members, read, containers)
        structure = find_structure(members.folders, path_to_key(root.name))
        if structure.top:
            yield Notice(f"all members are in the folder '{path_to_key(structure.top)}', which is not part of keys")
        yield from structure.classes(members.folders)
        yield from _items(index, structure, containers.all, options.needs)
    yield from tree.notices()


def _items(
    index: MemberIndex, structure: Structure, containers: list[Container], needs: str | None
) -> Iterator[ScanEntry]:
    """Yield an Item, Reject or Ignored for each indexed image."""
    outside: list[str] = []
    before = None
    for entry in index.entries():
        key = path_to_key(structure.key_path(entry.path))
        found = structure.class_of(entry.path)
        if found is None and needs is not None:
            outside.append(key)
            yield Ignored(key, OUTSIDE)
        elif entry.path == before:
            yield Reject(key, "duplicate_key", "another member has the same name; the first one is used", entry.size)
        elif entry.problem:
            yield Reject(key, *entry.problem, entry.size)
        else:
            class_name, split = found or ("", None)
            container = containers[entry.archive]
            yield Item(key, class_name, split, entry.size, container.mtime_ns, entry.place(container))
        before = entry.path
    if outside:
        where = "directly in SOURCE or a split folder, in no class folder, ignored"
        yield Notice(f"{many(len(outside), 'image')} {where}; the first is '{outside[0]}'")


def _scan_tar(root: Path, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield the images of a tar, or of a folder of tars."""
    yield from _scan(root, options, TAR_NAMES, read_tar)


def _scan_tars(root: Path, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield the images of a tar of tars, or of a folder with a tar for each class."""
    yield from _scan(root, options, TAR_NAMES, _read_tars)


def _scan_zip(root: Path, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield the images of a zip, or of a folder of zips."""
    yield from _scan(root, options, ZIP_NAMES, _read_zip)


TAR = Source(_scan_tar, "SOURCE is a tar of <class>/<image>, or a folder of such tars", is_tar_source)
TARS = Source(_scan_tars, "SOURCE is a tar of <class>.tar, each with the images of a class", is_tar_of_tars)
ZIP = Source(_scan_zip, "SOURCE is a zip of <class>/<image>", is_zip_source)
