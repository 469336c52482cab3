"""Walk folders. Only files without an image extension are opened."""

import errno
import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from dataprep.items import (
    ClosedFolder,
    Ignored,
    Item,
    Notice,
    Reject,
    ScanEntry,
    decode_name,
    encode_name,
    size_and_time,
)
from dataprep.options import SourceOptions
from dataprep.sources.ignore import IgnorePatterns
from dataprep.sources.peek import opens_as_image
from dataprep.storage.disk import OWN_ERRORS
from schemas.images.system_names import system_rule
from schemas.names import path_to_key
from schemas.process.memory import demand_threads, is_shortage

_IMAGE_NAMES = frozenset(
    f".{extension}"
    for line in (
        "jpg jpeg jpe jfif jif mpo png apng gif webp bmp dib tif tiff ppm pgm pbm pnm pfm jp2 j2k jpx jpf jpm jls",
        "avif avifs heic heif hif jxl jxr wdp hdp qoi ico cur ani icns psd psb xcf svg svgz eps wmf emf wsq bpg flif",
        "raw dng cr2 cr3 crw nef nrw arw srf sr2 raf orf rw2 rwl pef srw x3f mrw 3fr iiq erf mef kdc dcr gpr",
        "tga pcx dcx xpm xbm sgi dds ktx ktx2 pam farbfeld ras djvu djv mng jng exr hdr dpx cin dcm fits fts pcd miff",
    )
    for extension in line.split()
)
_IMAGE_ENDINGS = frozenset(name.encode() for name in _IMAGE_NAMES)

_AHEAD = 8  # entries per thread whose status is read ahead

Identity = tuple[int, int]


class Tree:
    """One walk through SOURCE, whose path is `root`. Paths below it are text from decode_name."""

    def __init__(self, root: Path, options: SourceOptions) -> None:
        self.root = os.fsencode(root)
        self.follow_links = options.follow_links
        self.patterns = IgnorePatterns(options.ignore)
        self.workers = options.scan_workers

    def on_disk(self, path: str) -> bytes:
        """Return the path on disk of a path below SOURCE."""
        return os.path.join(self.root, encode_name(path))

    def ignore_rule(self, name: str, path: str, is_folder: bool) -> str | None:
        """Return the rule by which a file or folder is ignored; None if it is not."""
        pattern = self.patterns.match(name, path, is_folder)  # also if a system rule applies: records the match
        return system_rule(name, is_folder) or (None if pattern is None else f"--ignore {pattern}")

    def entries(self, folder: str) -> "Iterator[Entry | ClosedFolder]":
        """Yield the entries of a folder, unsorted. Yield a ClosedFolder if it cannot be listed."""
        for entry in self.listed(folder):
            yield entry if isinstance(entry, ClosedFolder) else Entry.of(folder, entry)

    def listed(self, folder: str) -> "Iterator[os.DirEntry[bytes] | ClosedFolder]":
        """Yield the entries of a folder as the system lists them. Yield a ClosedFolder if it cannot be listed."""
        try:
            with os.scandir(self.on_disk(folder)) as entries:
                yield from entries if self.workers == 1 else status_ahead(entries, self.workers)
        except OSError as error:
            yield closed(folder, error)

    def sorted_entries(self, folder: str) -> "list[Entry | ClosedFolder]":
        """Return the entries of a small folder, sorted by the bytes of their names."""
        return sorted(self.entries(folder), key=lambda e: e.entry.name if isinstance(e, Entry) else b"")

    def notices(self) -> Iterator[Notice]:
        """Yield the warnings at the end of the walk."""
        yield from map(Notice, self.patterns.unmatched())


def status_ahead(entries: "Iterable[os.DirEntry[bytes]]", workers: int) -> "Iterator[os.DirEntry[bytes]]":
    """Yield the entries in order, each after a thread has read its status, which the entry keeps.

    `workers` threads hide the latency of a network file system. An error is raised again when the status is used.
    """
    demand_threads(workers)
    waiting: deque[Future[os.DirEntry[bytes]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for entry in entries:
            waiting.append(pool.submit(_read_status, entry))
            if len(waiting) == _AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _read_status(entry: "os.DirEntry[bytes]") -> "os.DirEntry[bytes]":
    with suppress(OSError):
        if not entry.is_dir(follow_symlinks=False):
            entry.stat(follow_symlinks=False)
            if entry.is_symlink():
                entry.stat()
    return entry


class Entry(NamedTuple):
    """An entry of a folder.

    `kind` is FILE unless it is a folder. If the entry cannot be read, `kind` is a Reject or ClosedFolder.
    """

    name: str
    path: str
    kind: "str | Reject | ClosedFolder"
    entry: "os.DirEntry[bytes]"

    @property
    def is_folder(self) -> bool:
        """True for a folder or a link to one."""
        return self.kind in (FOLDER, LINK)

    @classmethod
    def of(cls, folder: str, entry: "os.DirEntry[bytes]") -> "Entry":
        """Return the entry with its kind."""
        name = decode_name(entry.name)
        path = f"{folder}/{name}" if folder else name
        return cls(name, path, _kind_of(entry, path), entry)


FILE, FOLDER, LINK = "file", "folder", "link to a folder"


def _kind_of(entry: "os.DirEntry[bytes]", path: str) -> "str | Reject | ClosedFolder":
    try:
        if entry.is_dir(follow_symlinks=False):
            return FOLDER
    except OSError as error:  # the listing has no types: it may be a folder
        return closed(path, error)
    try:
        return LINK if entry.is_symlink() and entry.is_dir() else FILE
    except OSError as error:
        if is_shortage(error) or error.errno in OWN_ERRORS:
            raise
        return missing_file(path_to_key(path), is_link=True, error=error)


def closed(folder: str, error: OSError) -> ClosedFolder:
    """Return the ClosedFolder of a path below SOURCE."""
    return ClosedFolder(path_to_key(folder), error.errno or 0, error.strerror or str(error))


def walk(tree: Tree, path: str, class_name: str, split: str | None, above: frozenset[Identity]) -> Iterator[ScanEntry]:
    """Yield every entry below SOURCE/path: a regular file of the class, a reject or an ignored name.

    FIFOs, sockets and devices are rejected by type, without opening them. Links to files are followed. Links to folders
    are followed only with --follow-links. Loops are detected by device and inode: `above` are the ancestors of the
    path.
    """
    stack = [(path, above)]
    while stack:
        folder, above = stack.pop()
        prefix = f"{path_to_key(folder)}/" if folder else ""
        for listed in tree.listed(folder):
            if isinstance(listed, ClosedFolder):
                yield listed
                continue
            stat_result = None if tree.patterns else _plain_image(listed)
            if stat_result:
                key = prefix + listed.name.decode("ascii")
                yield Item(key, class_name, split, *size_and_time(stat_result))
                continue
            entry = Entry.of(folder, listed)
            key = path_to_key(entry.path)
            rule = tree.ignore_rule(entry.name, entry.path, entry.is_folder)
            if rule:
                yield Ignored(key, rule)
            elif not isinstance(entry.kind, str):
                yield entry.kind
            elif entry.is_folder:
                inside = _enter(tree, entry, above)
                if isinstance(inside, frozenset):
                    stack.append((entry.path, inside))
                else:
                    yield inside
            else:
                file = _file(tree.root, encode_name(entry.path), key, entry.entry)
                yield Item(key, class_name, split, *file) if isinstance(file, tuple) else file


def _plain_image(entry: "os.DirEntry[bytes]") -> os.stat_result | None:
    """Return the status of a regular file with an image extension and an ordinary name; None for all others.

    Most files are of this kind. No rule applies to such a name, and it is its own key.
    """
    name = entry.name
    if name[name.rfind(b".") :].lower() not in _IMAGE_ENDINGS or name[0] in b".~" or not name.isascii() or b"%" in name:
        return None
    try:
        return entry.stat(follow_symlinks=False) if entry.is_file(follow_symlinks=False) else None
    except OSError:
        return None


def ancestors(tree: Tree, path: str) -> "frozenset[Identity] | Reject | ClosedFolder":
    """Return SOURCE/path and its ancestors up to the root of the disk, including those of link targets.

    Returns a Reject if a component is a link to a folder above it. The result is empty if links are not followed.
    """
    if not tree.follow_links:
        return frozenset()
    above = frozenset[Identity]()
    parts = path.split("/") if path else []
    for length in range(len(parts) + 1):
        folder = "/".join(parts[:length])
        try:
            own = _identity(tree.on_disk(folder))
            if own in above:
                return Reject(path_to_key(folder), "link_loop", "the link points to a folder above itself")
            above |= _lineage(tree.on_disk(folder))
        except OSError as error:
            return closed(folder, error)
    return above


def _lineage(path: bytes) -> frozenset[Identity]:
    """Return a folder and its ancestors, links resolved."""
    folder = os.path.realpath(path)
    identities = {_identity(folder)}
    while folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        identities.add(_identity(folder))
    return frozenset(identities)


def _identity(path: bytes) -> Identity:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _enter(
    tree: Tree, entry: Entry, above: frozenset[Identity]
) -> frozenset[Identity] | Ignored | Reject | ClosedFolder:
    """Return the ancestors with this folder, or the reason why it is not entered."""
    if not tree.follow_links:
        return Ignored(path_to_key(entry.path), LINK) if entry.kind == LINK else above
    # Only links make loops, but a plain folder below a link may be SOURCE itself.
    try:
        own = _identity(tree.on_disk(entry.path))
        if own in above:
            return Reject(path_to_key(entry.path), "link_loop", "the link points to a folder above itself")
        return above | (_lineage(tree.on_disk(entry.path)) if entry.kind == LINK else {own})
    except OSError as error:
        return closed(entry.path, error)


def _file(root: bytes, path: bytes, key: str, entry: "os.DirEntry[bytes]") -> tuple[int, int] | Reject | Ignored:
    """Return size in bytes and modification time of a regular file, or a Reject or Ignored."""
    try:
        status = entry.stat()
    except OSError as error:
        if is_shortage(error) or error.errno in OWN_ERRORS:
            raise
        return missing_file(key, entry.is_symlink(), error)
    if not stat.S_ISREG(status.st_mode):
        return Reject(key, "not_a_regular_file", _kind(status.st_mode))
    extension = path[path.rfind(b".") :].lower().decode("latin-1")
    if extension not in _IMAGE_NAMES and not opens_as_image(os.path.join(root, path)):
        return Ignored(key, "no image by name or content")
    return size_and_time(status)


def has_image_name(name: str) -> bool:
    """Return True if the name has an image extension."""
    return name[name.rfind(".") :].lower() in _IMAGE_NAMES


def missing_file(key: str, is_link: bool, error: OSError) -> Reject:
    """Return the Reject of a name that cannot be resolved to a file."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Reject(key, "dangling_link" if is_link else "vanished", "the file does not exist")
    if error.errno == errno.ELOOP:
        return Reject(key, "link_loop", "a loop of links")
    return Reject(key, "unreadable", error.strerror or str(error))


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((name for test, name in kinds if test(mode)), "a special file")
