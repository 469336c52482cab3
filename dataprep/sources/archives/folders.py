"""Layouts tar, tars and zip: the folders in the names of the members are the classes, or splits and classes."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from dataprep.images.signatures import looks_like_image
from dataprep.items import FoundClass, Ignored, Item, Notice, Reject, ScanEntry
from dataprep.options import SourceOptions
from dataprep.sources.archives.members import Member, Members, member_table
from dataprep.sources.archives.tar import inner_tars, is_tar_source, tar_files, tar_members
from dataprep.sources.archives.webdataset import looks_like_samples
from dataprep.sources.archives.zip import zip_members
from dataprep.sources.ignore import IgnorePatterns
from dataprep.sources.names import ignore_rule, splits_of
from dataprep.sources.source import Source
from dataprep.sources.split_folders import split_names
from dataprep.sources.walk import has_image_name
from schemas.names import path_to_key


def scan_tar(path: Path, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield the images of a tar, or of all tars in a folder."""
    folder = path if path.is_dir() else path.parent
    files = tar_files(path)
    notices: list[Notice] = []
    with member_table(folder) as members:
        for file in files:
            members.add(tar_members(file, folder, options.work, notices))
        yield from images_by_folder(members, options)
    yield from notices


def scan_tars(path: Path, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield the images of a tar of tars. The names of the inner tars are the classes, or splits and classes."""
    notices: list[Notice] = []
    with member_table(path.parent) as members:
        for name, inner in inner_tars(path, path.parent, notices):
            prefix = f"{name}/" if name else ""
            members.add(one._replace(name=prefix + one.name) for one in inner)
        yield from images_by_folder(members, options)
    yield from notices


def scan_zip(path: Path, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield the images of a zip."""
    with member_table(path.parent) as members:
        members.add(zip_members(path, path.parent))
        yield from images_by_folder(members, options)


def images_by_folder(members: Members, options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield the images among the members, with split and class by their folders.

    A folder that contains everything is left out, as if SOURCE were that folder.
    """
    members.resolve_links()
    patterns = IgnorePatterns(options.ignore)
    top = _common_top(member.name for member in members)
    if top:
        yield Notice(f"all members are in '{top.rstrip('/')}', which is left out of keys and classes")
    splits = splits_of(member.name.removeprefix(top) for member in members)
    seen: set[int] = set()
    classes: set[tuple[str, str | None]] = set()
    for member in members:
        name = member.name.removeprefix(top)
        key = path_to_key(name)
        rule = ignore_rule(patterns, name) or _other_rule(members, member, name, splits, options)
        if rule:
            yield Ignored(key, rule)
            continue
        if hash(name) in seen:
            yield Reject(key, "duplicate_key", "an earlier member has this name", member.size)
            continue
        seen.add(hash(name))
        if member.problem or member.place is None:
            yield Reject(key, *(member.problem or ("unreadable", "it has no data")), member.size)
            continue
        parts = name.split("/")
        split = splits.get(parts[0])
        class_name = path_to_key(parts[1 if splits else 0]) if options.needs == "class" else ""
        if class_name and (class_name, split) not in classes:
            classes.add((class_name, split))
            yield FoundClass(class_name, split)
        yield Item(key, class_name, split, member.size, member.place.container.mtime_ns, member.place)
    yield from map(Notice, patterns.unmatched())


def _other_rule(
    members: Members, member: Member, name: str, splits: dict[str, str], options: SourceOptions
) -> str | None:
    """Return the rule for a member that is no image, or outside the folders."""
    if member.place is not None and not has_image_name(name) and not looks_like_image(members.head(member)):
        return "no image by name or content"
    depth = name.count("/")
    if splits and (name.split("/")[0] not in splits or not depth):
        return "not in a split folder"
    if options.needs == "class" and depth < (2 if splits else 1):
        return "not in a class folder"
    return None


def _common_top(names: Iterable[str]) -> str:
    """Return the folders, with a slash at the end, that contain every member at least two levels down."""
    top: list[str] | None = None
    for name in names:
        folders = name.split("/")[:-2]
        if top is None:
            top = folders
        common = 0
        for one, other in zip(top, folders, strict=False):
            if one != other:
                break
            common += 1
        top = top[:common]
        if not top:
            return ""
    kept = top or []
    while kept and split_names([kept[-1]]):  # SOURCE/train/<class>: the folder is a split
        kept = kept[:-1]
    return "".join(f"{part}/" for part in kept)


def _has_inner_tars(names: list[str]) -> bool:
    return any(name.lower().endswith(".tar") for name in names)


TAR = Source(
    scan_tar,
    "SOURCE is a tar (also .tar.gz, .tar.bz2, .tar.xz, .tar.zst) or a folder of tars with members <class>/<image>",
    lambda path: is_tar_source(path, lambda names: not _has_inner_tars(names) and not looks_like_samples(names)),
)
TAR_OF_TARS = Source(
    scan_tars,
    "SOURCE is a tar of one tar for each class, as ImageNet's",
    lambda path: path.is_file() and is_tar_source(path, _has_inner_tars),
)
ZIP = Source(
    scan_zip,
    "SOURCE is a zip with members <class>/<image> or <split>/<class>/<image>",
    lambda path: path.is_file() and path.suffix.lower() == ".zip",
)
