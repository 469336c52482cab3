"""Read the members of archives into the index, with the ignore rules of folders."""

import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing

from dataprep.images.signatures import looks_like_image
from dataprep.items import Ignored, Notice, Reject, ScanEntry
from dataprep.sources.archives.index import MemberIndex
from dataprep.sources.archives.member import FILE, FOLDER, HARD_LINK, LINK, OTHER, Gap, Member, Remark, clean_name
from dataprep.sources.archives.reading import Reader
from dataprep.sources.walk import LINK as FOLDER_LINK
from dataprep.sources.walk import Tree, has_image_name
from schemas.names import path_to_key

NO_IMAGE = "no image by name or content"
OUTSIDE = "not in a class folder"
_HEAD = 32  # bytes that show an image format
_PACKED_HEAD = 1024
_LARGEST_TEXT = 1 << 20


class MemberReader:
    """Fills the index with the members of archives, and yields what the plan must know besides.

    `folders` counts the images directly in each folder that is not ignored. `texts` are extensions of members whose
    content is indexed.
    """

    def __init__(self, tree: Tree, index: MemberIndex, texts: frozenset[str] = frozenset()) -> None:
        self._tree = tree
        self._index = index
        self._texts = texts
        self._ignored: dict[str, str] = {"": ""}  # folder -> the ignored folder that it is in, or is
        self.folders: dict[str, int] = {"": 0}

    def read(
        self, events: Iterable[Member | Gap | Remark], reader: Reader, archive: int, name: str, prefix: str
    ) -> Iterator[ScanEntry]:
        """Index the members of one archive below the folder `prefix`. `name` is the key of the archive."""
        for event in events:
            if isinstance(event, Remark):
                yield Notice(event.text)
            elif isinstance(event, Gap):
                yield Reject(f"{name}#{event.offset}", "corrupt", event.detail)
            else:
                path = clean_name(event.name)
                path = f"{prefix}/{path}" if prefix and path else prefix or path
                if path:
                    yield from self._add(path, event, reader, archive)

    def links(self) -> Iterator[ScanEntry]:
        """Resolve links, after the last archive."""
        for path, is_folder in self._index.resolve_links():
            yield Ignored(path_to_key(path), FOLDER_LINK if is_folder else NO_IMAGE)

    def open_folder(self, path: str) -> Iterator[Ignored]:
        """Note a folder. Yields it, or the folder above it, if a rule ignores it that was not reported yet."""
        known, parts = len(path), path.split("/")
        while path[:known] not in self._ignored:
            known = max(0, path.rfind("/", 0, known))
        above = self._ignored[path[:known]]
        for count in range(len(path[:known].split("/")) if known else 0, len(parts)):
            folder = "/".join(parts[: count + 1])
            if not above:
                rule = self._tree.ignore_rule(parts[count], folder, True)
                if rule:
                    above = folder
                    yield Ignored(path_to_key(folder), rule)
                else:
                    self.folders.setdefault(folder, 0)
            self._ignored[folder] = above

    def _add(self, path: str, member: Member, reader: Reader, archive: int) -> Iterator[ScanEntry]:
        folder, _, name = path.rpartition("/")
        if member.kind == FOLDER:
            folder = path
        if folder not in self._ignored:
            yield from self.open_folder(folder)
        if member.kind == FOLDER:
            return
        rule = "" if self._ignored[folder] else self._tree.ignore_rule(name, path, False)
        if rule:
            yield Ignored(path_to_key(path), rule)
        is_row = rule is None
        if member.kind == OTHER:
            if is_row and member.problem:
                yield Reject(path_to_key(path), *member.problem)
        elif member.kind in (LINK, HARD_LINK):
            self._add_link(path, member, reader, archive, is_row)
        elif self._texts:
            yield from self._add_text_or_image(path, member, reader, archive, is_row)
        else:
            yield from self._add_file(path, member, reader, archive, is_row)

    def _add_link(self, path: str, member: Member, reader: Reader, archive: int, is_row: bool) -> None:
        if member.kind == LINK and not member.target and member.length and not member.problem:
            content = _inflated(reader, member, member.size) if member.size <= 4096 else b""
            member = member._replace(target=content)
        is_text = path.rpartition(".")[2].lower() in self._texts
        self._index.add_link(path, archive, member, is_row, is_text or has_image_name(path))
        if is_row:
            self._count(path)

    def _add_file(self, path: str, member: Member, reader: Reader, archive: int, is_row: bool) -> Iterator[ScanEntry]:
        is_image = has_image_name(path) or (is_row and _looks_like_image(reader, member))
        if is_row and not is_image:
            yield Ignored(path_to_key(path), NO_IMAGE if "/" in path else OUTSIDE)
        self._index.add(path, archive, member, is_row and is_image, is_image)
        if is_row and is_image:
            self._count(path)

    def _add_text_or_image(
        self, path: str, member: Member, reader: Reader, archive: int, is_row: bool
    ) -> Iterator[ScanEntry]:
        content = None
        if path.rpartition(".")[2].lower() in self._texts:
            if member.size > _LARGEST_TEXT:
                detail = f"the text has {member.size} bytes, the limit is {_LARGEST_TEXT}"
                member = member._replace(problem=("too_large", detail))
            elif not member.problem:
                content = reader.read_at(member.offset, member.length)
        elif not has_image_name(path):
            if is_row:
                yield Ignored(path_to_key(path), NO_IMAGE)
            is_row = False
        self._index.add(path, archive, member, is_row, has_image_name(path), content)

    def _count(self, path: str) -> None:
        self.folders[path.rpartition("/")[0]] += 1


def _looks_like_image(reader: Reader, member: Member) -> bool:
    """Return True if the first bytes of a member are those of an image."""
    if member.problem or member.kind != FILE:
        return False
    if member.codec == "stored":
        return looks_like_image(reader.read_at(member.offset, min(_HEAD, member.length)))
    return looks_like_image(_inflated(reader, member, _HEAD))


def _inflated(reader: Reader, member: Member, count: int) -> bytes:
    """Return the first bytes of a deflated member; none if it is damaged."""
    packed = reader.read_at(member.offset, min(_PACKED_HEAD + count, member.length))
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, count)
    except zlib.error:
        return b""


def indexed() -> "closing[MemberIndex]":
    """Return a new index that is deleted at the end of a `with`."""
    return closing(MemberIndex())
