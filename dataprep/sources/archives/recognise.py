"""Recognise archives by their names, first bytes and first members."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from dataprep.errors import DataprepError
from dataprep.items import ClosedFolder, portable_path
from dataprep.options import SourceOptions
from dataprep.sources.archives.files import TAR_NAMES, ArchiveFile, base_of, find_archives
from dataprep.sources.archives.member import FILE, Member, clean_name
from dataprep.sources.archives.samples import IMAGE_TEXTS, split_extension
from dataprep.sources.archives.spool import open_archive
from dataprep.sources.archives.tar_members import BLOCK, is_tar, tar_members
from dataprep.sources.archives.zip_members import is_zip
from dataprep.sources.walk import Tree, has_image_name

ZIP_NAMES = re.compile(r"\.zip$", re.IGNORECASE)
_MEMBERS = 100  # the first ones, which are looked at
_FEW = 50  # folders beside archives


def is_zip_source(root: Path) -> bool:
    """Return True for a zip, or a folder with nothing but zips."""
    archives = _archives(root, ZIP_NAMES)
    return bool(archives) and is_zip(_head(root, archives[0], 4))


def is_tar_source(root: Path) -> bool:
    """Return True for a tar, or a folder of tars, that is neither a tar of tars nor WebDataset."""
    return _tar_layout(root) == "tar"


def is_tar_of_tars(root: Path) -> bool:
    """Return True for a tar whose first file is a tar."""
    return _tar_layout(root) == "tars"


def is_webdataset(root: Path) -> bool:
    """Return True for tars in which an image and a text with its label have the same name."""
    return _tar_layout(root) == "webdataset"


def _tar_layout(root: Path) -> str | None:
    archives = _archives(root, TAR_NAMES)
    if not archives:
        return None
    try:
        with open_archive(base_of(root), archives[0].path, None) as opened:
            if not is_tar(opened.reader.read_at(0, BLOCK)):
                named = bool(TAR_NAMES.search(archives[0].path))
                return "tar" if named and opened.reader.size != 0 else None  # the scan says what is wrong
            return _layout_of_names(list(_names(islice(tar_members(opened.reader, ""), _MEMBERS))))
    except (DataprepError, OSError):
        return "tar"  # the scan says why it cannot be read


def _names(members: Iterator[object]) -> Iterator[str]:
    for member in members:
        if isinstance(member, Member) and member.kind == FILE:
            name = clean_name(member.name)
            if not name.rpartition("/")[2].startswith("."):
                yield name


def _layout_of_names(names: list[str]) -> str:
    if names and TAR_NAMES.search(names[0]):
        return "tars"
    images = {split_extension(name)[0] for name in names if has_image_name(name)}
    texts = {split_extension(name) for name in names}
    # Images in folders may have texts beside them that are no labels; .cls is always one.
    labelled = any((key, "cls") in texts for key in images)
    flat = any((key, extension) in texts for key in images if "/" not in key for extension in IMAGE_TEXTS)
    return "webdataset" if labelled or flat else "tar"


def _archives(root: Path, names: re.Pattern[str]) -> list[ArchiveFile]:
    """Return the archives of SOURCE; none if SOURCE has images, or other folders than those of archives."""
    if root.is_file():
        file = ArchiveFile(portable_path(root.name), "")
        is_one = bool(names.search(root.name)) or (names is TAR_NAMES and _head(root, file, 262)[257:262] == b"ustar")
        return [file] if is_one else []
    tree = Tree(root, SourceOptions())
    top = _names_in(tree, "")
    if top is None or any(has_image_name(name) for name, is_folder in top if not is_folder):
        return []
    here = any(names.search(name) for name, is_folder in top if not is_folder)
    for folder in (name for name, is_folder in top if is_folder):
        inside = _names_in(tree, folder)
        files = [name for name, is_folder in inside or () if not is_folder]
        if not any(map(names.search, files)) or any(map(has_image_name, files)):
            return []
        here = True
    found = find_archives(tree, root, names) if here else ()
    return [one for one in found if isinstance(one, ArchiveFile)]


def _names_in(tree: Tree, folder: str) -> list[tuple[str, bool]] | None:
    """Return the names in a folder that are not ignored, with True for folders; None if there are many folders.

    The reading ends at the first _FEW folders and images, so a large folder of images costs little.
    """
    names = []
    others = 0
    for entry in tree.entries(folder):
        if isinstance(entry, ClosedFolder):
            return None
        if tree.ignore_rule(entry.name, entry.path, entry.is_folder) is None:
            names.append((entry.name, entry.is_folder))
            others += entry.is_folder or has_image_name(entry.name)
            if others > _FEW:
                return None
    return names


def _head(root: Path, archive: ArchiveFile, count: int) -> bytes:
    try:
        with open_archive(base_of(root), archive.path, None) as opened:
            return opened.reader.read_at(0, count)
    except (DataprepError, OSError):
        return b""
