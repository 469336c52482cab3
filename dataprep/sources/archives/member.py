"""A member of an archive, and its name as a path below SOURCE."""

import posixpath
from typing import NamedTuple

from dataprep.items import decode_name

FILE, FOLDER, LINK, HARD_LINK, OTHER = "file", "folder", "link", "hard link", "other"


class Member(NamedTuple):
    """A member of an archive: its raw name, its kind, and where its bytes are.

    `length` bytes at `offset` decode to `size` bytes by `codec`. `target` is that of a link. `problem` is the reason
    and detail if the member cannot be read.
    """

    name: bytes
    kind: str
    offset: int = 0
    length: int = 0
    size: int = 0
    codec: str = "stored"
    checksum: int | None = None
    target: bytes = b""
    problem: tuple[str, str] | None = None


class Gap(NamedTuple):
    """Damage in an archive at byte `offset`, with a sentence. Members there are unknown."""

    offset: int
    detail: str


class Remark(NamedTuple):
    """A sentence about an archive as a whole that needs no action of the scan."""

    text: str


def clean_name(name: bytes) -> str:
    """Return the path below SOURCE of a member name, as text from decode_name.

    A name is only a name: a leading slash and the components `.` and `..` are dropped, so no path leaves SOURCE.
    """
    text = decode_name(name.split(b"\0", 1)[0])
    if not text.startswith(("/", "./", "../")) and "//" not in text and "/." not in text and not text.endswith("/"):
        return "" if text in (".", "..") else text
    return "/".join(part for part in text.split("/") if part not in ("", ".", ".."))


def link_target(path: str, member: Member) -> str | None:
    """Return the path of the member that a link at `path` names; None if the target is outside of the archive.

    The target of a hard link is a name in the archive, that of a symbolic link is relative to the folder of the link.
    """
    if member.kind == HARD_LINK:
        return clean_name(member.target) or None
    target = decode_name(member.target)
    if not target or target.startswith("/"):
        return None
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return None if joined in (".", "..") or joined.startswith("../") else joined
