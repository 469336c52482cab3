"""A temporary SQLite index of the members of all archives, so that a million members need disk space, not memory."""

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from dataprep.items import ByteRange, Container, decode_name, encode_name
from dataprep.sources.archives.member import Member, link_target

_BATCH = 5000
_MOST_LINKS = 40  # in a chain, as in the kernel
_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA cache_size = -32768;
CREATE TABLE member(path BLOB, archive INT, offset INT, length INT, size INT, codec TEXT, checksum INT,
    reason TEXT, detail TEXT, is_row INT, is_image INT, content BLOB);
CREATE TABLE link(path BLOB, archive INT, target BLOB, is_row INT, is_image INT);
"""
_COLUMNS = "path, archive, offset, length, size, codec, checksum, reason, detail, content"


class Entry(NamedTuple):
    """An indexed member. `content` is that of a small text file. `problem` is a reason and a detail."""

    path: str
    archive: int
    offset: int
    length: int
    size: int
    codec: str
    checksum: int | None
    problem: tuple[str, str] | None
    content: bytes | None

    def place(self, container: Container) -> ByteRange:
        """Return the byte range of the member."""
        return ByteRange(container, self.offset, self.length, self.codec, self.checksum)


class MemberIndex:
    """The members of all archives of a scan. Those that are rows come out sorted by the bytes of their paths."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("")  # a temporary file that SQLite deletes when closed
        self._db.executescript(_TABLES)
        self._batch: list[tuple[object, ...]] = []
        self._has_links = False

    def close(self) -> None:
        """Delete the index."""
        self._db.close()

    def add(
        self, path: str, archive: int, member: Member, is_row: bool, is_image: bool, content: bytes | None = None
    ) -> None:
        """Add a regular file. `is_row` is False for a file that is ignored, but may be the target of a link."""
        problem = member.problem or (None, None)
        where = member.offset, member.length, member.size, member.codec, member.checksum
        self._batch.append((encode_name(path), archive, *where, *problem, is_row, is_image, content))
        if len(self._batch) >= _BATCH:
            self._write()

    def add_link(self, path: str, archive: int, member: Member, is_row: bool, is_image: bool) -> None:
        """Add a link to another member of its archive."""
        target = link_target(path, member)
        stored = None if target is None else encode_name(target)
        self._db.execute(
            "INSERT INTO link VALUES(?, ?, ?, ?, ?)", (encode_name(path), archive, stored, is_row, is_image)
        )
        self._has_links = True

    def _write(self) -> None:
        self._db.executemany(f"INSERT INTO member VALUES({', '.join('?' * 12)})", self._batch)
        self._batch = []

    def resolve_links(self) -> Iterator[tuple[str, bool]]:
        """Turn links into members with the bytes of their targets. Call it once, after the last member.

        Yields the paths of links to folders, and of links whose target is not an image, with True for a folder.
        """
        self._write()
        if not self._has_links:
            return
        self._db.execute("CREATE INDEX by_path ON member(path, archive)")
        self._db.execute("CREATE INDEX link_by_path ON link(path, archive)")
        resolved: list[tuple[object, ...]] = []
        for path, archive, target, is_row, is_image in self._db.execute(
            "SELECT * FROM link WHERE is_row ORDER BY rowid"
        ):
            found = self._target(target, archive)
            if found is not None and (is_image or found[-2]):
                resolved.append((path, archive, *found[2:9], is_row, 1, found[-1]))
            elif found is not None:
                yield decode_name(path), False
            elif target is not None and self._is_folder(target, archive):
                yield decode_name(path), True
            else:
                detail = "it is a link, and its target is not a file in the archive"
                resolved.append((path, archive, 0, 0, 0, "", None, "dangling_link", detail, is_row, 1, None))
        self._batch = resolved
        self._write()

    def _target(self, path: bytes | None, archive: int) -> tuple[object, ...] | None:
        """Return the row of the member at the end of a chain of links; None if there is none."""
        for _ in range(_MOST_LINKS):
            if path is None:
                return None
            row = self._db.execute(
                "SELECT * FROM member WHERE path = ? AND archive = ? ORDER BY rowid LIMIT 1", (path, archive)
            ).fetchone()
            if row:
                return tuple(row)
            following = self._db.execute(
                "SELECT target FROM link WHERE path = ? AND archive = ? ORDER BY rowid LIMIT 1", (path, archive)
            ).fetchone()
            path = following[0] if following else None
        return None

    def _is_folder(self, path: bytes, archive: int) -> bool:
        query = "SELECT 1 FROM member WHERE path >= ? AND path < ? AND archive = ? LIMIT 1"
        return self._db.execute(query, (path + b"/", path + b"0", archive)).fetchone() is not None

    def entries(self) -> Iterator[Entry]:
        """Yield the members that are rows, sorted by path and archive."""
        self._write()
        query = f"SELECT {_COLUMNS} FROM member WHERE is_row ORDER BY path, archive, rowid"
        for path, archive, offset, length, size, codec, checksum, reason, detail, content in self._db.execute(query):
            problem = (reason, detail) if reason else None
            yield Entry(decode_name(path), archive, offset, length, size, codec, checksum, problem, content)
