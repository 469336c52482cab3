"""Walks folders without opening a file, except those whose name does not say that they are images."""

import fnmatch
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from dataprep.item import Ignored, Item, Reject
from dataprep.keys import path_to_key
from dataprep.sources.peek import opens_as_image

_IMAGE_NAMES = frozenset(
    f".{extension}"
    for line in (
        "jpg jpeg jpe jfif jif mpo png apng gif webp bmp dib tif tiff ppm pgm pbm pnm pfm jp2 j2k jpx jpf jpm jls",
        "avif avifs heic heif jxl qoi ico cur icns tga psd svg svgz raw dng cr2 nef arw exr hdr dcm fits eps wmf",
        "pcx xpm xbm sgi dds",
    )
    for extension in line.split()
)
_JUNK = {"thumbs.db": "thumbs.db", "desktop.ini": "desktop.ini", "__macosx": "__macosx"}


@dataclass(frozen=True)
class WalkOptions:
    """`ignore` holds shell patterns matched against a name and against the key; `follow_links` is about folders."""

    ignore: tuple[str, ...] = ()
    follow_links: bool = False


def ignore_rule(name: str, options: WalkOptions, key: str | None = None) -> str | None:
    """The rule by which a file or folder of this name is ignored; None when it is not."""
    if name.startswith("."):
        return "appledouble" if name.startswith("._") else "hidden"
    rule = _JUNK.get(name.lower())
    if rule:
        return rule
    for pattern in options.ignore:
        if fnmatch.fnmatchcase(name, pattern) or (key and fnmatch.fnmatchcase(key, pattern)):
            return f"--ignore {pattern}"
    return None


def walk(
    root: str, path: str, class_name: str, split: str | None, options: WalkOptions
) -> Iterator[Item | Reject | Ignored]:
    """Every entry below root/path: a regular file of the class, a reject (with its reason) or an ignored name.

    Nothing here blocks: a FIFO, socket or device is refused by its type. A link to a file is followed; a link to
    a folder only on demand, and a loop is found by device and inode. Memory: the folders on the way down.
    """
    stack = [(path, frozenset([_identity(os.path.join(root, path))]))]
    while stack:
        folder, above = stack.pop()
        for entry in _entries(root, folder):
            if isinstance(entry, Reject):
                yield entry
                continue
            below = f"{folder}/{entry.name}"
            key = path_to_key(below)
            rule = ignore_rule(entry.name, options, key)
            if rule:
                yield Ignored(key, rule)
            elif entry.is_dir(follow_symlinks=False) or (entry.is_symlink() and entry.is_dir()):
                inside = _enter(root, below, entry.is_symlink(), above, options)
                if isinstance(inside, frozenset):
                    stack.append((below, inside))
                else:
                    yield inside
            else:
                file = _file(root, below, key, entry)
                yield Item(key, class_name, split, *file) if isinstance(file, tuple) else file


def _entries(root: str, folder: str) -> Iterator["os.DirEntry[str] | Reject"]:
    try:
        with os.scandir(os.path.join(root, folder)) as entries:
            yield from entries
    except OSError as error:
        yield Reject(path_to_key(folder), "unreadable_folder", error.strerror or str(error))


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _enter(
    root: str, path: str, is_link: bool, above: frozenset[tuple[int, int]], options: WalkOptions
) -> frozenset[tuple[int, int]] | Ignored | Reject:
    """The folders above and this one; or why it is not entered."""
    if not is_link:
        # Only links make loops, so the identity of a plain folder costs a stat only where links are followed.
        return above | {_identity(os.path.join(root, path))} if options.follow_links else above
    if not options.follow_links:
        return Ignored(path_to_key(path), "link to a folder")
    identity = _identity(os.path.join(root, path))
    if identity in above:
        return Reject(path_to_key(path), "link_loop", "the link leads to a folder above itself")
    return above | {identity}


def _file(root: str, path: str, key: str, entry: "os.DirEntry[str]") -> tuple[int, int] | Reject | Ignored:
    """Size in bytes and time of change of a regular file; or what it is instead."""
    try:
        found = entry.stat()
    except FileNotFoundError:
        return Reject(key, "dangling_link" if entry.is_symlink() else "vanished", "there is no file behind the name")
    except OSError as error:
        return Reject(key, "unreadable", error.strerror or str(error))
    if not stat.S_ISREG(found.st_mode):
        return Reject(key, "not_a_regular_file", _kind(found.st_mode))
    ending = entry.name[entry.name.rfind(".") :].lower()
    if ending not in _IMAGE_NAMES and not opens_as_image(os.path.join(root, path)):
        return Ignored(key, "no image by name or content")
    return found.st_size, found.st_mtime_ns


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((name for test, name in kinds if test(mode)), "a special file")
