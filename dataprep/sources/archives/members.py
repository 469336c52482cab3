"""Members of archives, kept in a table on disk, since an archive may have millions."""

import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from dataprep.items import ByteRange, Container, decode_name, encode_name
from schemas.names import path_to_key
from schemas.storage.regular_file import open_regular

_HEAD_BYTES = 2100


class Member(NamedTuple):
    """A member of an archive: its name, decoded size in bytes and place.

    `link` is the name of the member that has the data of a link; then `place` is None. `problem` is a reason code and a
    sentence for a member that cannot be read.
    """

    name: str
    size: int
    place: ByteRange | None
    link: str | None = None
    problem: tuple[str, str] | None = None


class Members:
    """The members of all archives of a SOURCE, in the order in which they were added."""

    def __init__(self, db: sqlite3.Connection, folder: Path) -> None:
        self._db, self._folder = db, folder
        self._containers: list[Container] = []
        self._files: dict[str, BinaryIO] = {}
        db.execute("PRAGMA synchronous = OFF")
        db.execute(
            "CREATE TABLE member(id INTEGER PRIMARY KEY, name TEXT, size INT, container INT, offset INT, length INT, "
            "codec TEXT, checksum INT, link TEXT, reason TEXT, detail TEXT)"
        )

    def add(self, members: Iterable[Member]) -> None:
        """Add members. The containers of their places must come one after the other."""
        self._db.executemany(
            "INSERT INTO member VALUES(NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (self._row(one) for one in members)
        )

    def _row(self, member: Member) -> tuple[object, ...]:
        name, size, place, link, problem = member
        columns: tuple[object, ...] = (None,) * 5
        if place is not None:
            if not self._containers or self._containers[-1] != place.container:
                self._containers.append(place.container)
            columns = len(self._containers) - 1, *place[1:]
        # As bytes: SQLite's text must be UTF-8.
        linked = None if link is None else encode_name(link)
        return encode_name(name), size, *columns, linked, *(problem or (None, None))

    def __iter__(self) -> Iterator[Member]:
        return map(self._member, self._db.execute("SELECT * FROM member ORDER BY id"))

    def _member(self, row: tuple[Any, ...]) -> Member:
        _, name, size, number, offset, length, codec, checksum, link, reason, detail = row
        place = None
        if number is not None:
            place = ByteRange(self._containers[number], offset, length, codec, checksum)
        problem = None if reason is None else (reason, detail)
        return Member(decode_name(name), size, place, None if link is None else decode_name(link), problem)

    def by_base(self) -> Iterator[list[Member]]:
        """Yield the members with the same name up to the first dot after the last slash, in order of their names."""
        self._db.create_function("base_of", 1, lambda name: encode_name(base_of(decode_name(name))), deterministic=True)
        group: list[Member] = []
        for row in self._db.execute("SELECT * FROM member ORDER BY base_of(name), id"):
            member = self._member(row)
            if group and base_of(group[0].name) != base_of(member.name):
                yield group
                group = []
            group.append(member)
        if group:
            yield group

    def resolve_links(self) -> None:
        """Give each link the place of its target. A link without a target gets a problem."""
        links = self._db.execute("SELECT id, link FROM member WHERE link IS NOT NULL").fetchall()
        if not links:
            return
        self._db.execute("CREATE INDEX by_name ON member(name)")
        for number, name in links:
            target = self._target(name)
            if target is None:
                problem = ("dangling_link", f"it is a link to '{path_to_key(decode_name(name))}', not in the archive")
                self._db.execute("UPDATE member SET reason = ?, detail = ? WHERE id = ?", (*problem, number))
            else:
                self._db.execute(
                    "UPDATE member SET size = ?, container = ?, offset = ?, length = ?, codec = ?, checksum = ? "
                    "WHERE id = ?",
                    (*target, number),
                )

    def _target(self, name: bytes) -> tuple[object, ...] | None:
        query = "SELECT link, size, container, offset, length, codec, checksum FROM member WHERE name = ? LIMIT 1"
        for _ in range(40):  # the limit of the system for links to links
            row = self._db.execute(query, (name,)).fetchone()
            if row is None or row[0] is None:
                return None if row is None or row[2] is None else tuple(row[1:])
            name = row[0]
        return None

    def read(self, member: Member, limit: int | None = None) -> bytes:
        """Return the decoded bytes of a member, at most `limit` of them.

        Raises OSError or zlib.error if they cannot be read.
        """
        place = member.place
        assert place is not None
        path = place.container.path
        if path not in self._files:
            self._files[path] = open_regular(self._folder / os.fsdecode(encode_name(path)))
        length = place.length if limit is None or place.codec != "stored" else min(place.length, limit)
        data = os.pread(self._files[path].fileno(), length, place.offset)
        if place.codec == "deflate":
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, limit or 0)
        return data

    def head(self, member: Member) -> bytes:
        """Return the first bytes of a member; empty if they cannot be read."""
        try:
            return self.read(member, _HEAD_BYTES)
        except (OSError, zlib.error):
            return b""

    def close(self) -> None:
        """Close the archives."""
        for file in self._files.values():
            file.close()


@contextmanager
def member_table(folder: Path) -> Iterator[Members]:
    """Open an empty table. `folder` is the folder of SOURCE."""
    with closing(sqlite3.connect("")) as db:
        members = Members(db, folder)
        try:
            yield members
        finally:
            members.close()


def base_of(name: str) -> str:
    """Return a name up to the first dot after its last slash: the key of a WebDataset sample."""
    folder, slash, file = name.rpartition("/")
    return folder + slash + file.partition(".")[0]
