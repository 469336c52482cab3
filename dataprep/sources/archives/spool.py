"""Unpack compressed tars once: into .work for a job, nowhere for a dry run.

The unpacked tar stays in .work until the dataset is sealed. A file beside it records the archive that it came from, so
a rerun after a kill does not unpack again.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from dataprep.errors import DataprepError
from dataprep.formatting import size as format_size
from dataprep.items import IN_WORK, UNPACKED, Container, decode_name, encode_name
from dataprep.sources.archives.reading import FileReader, Reader, StreamReader
from dataprep.sources.archives.streams import Compression, compression_of, decompressed
from schemas.names import path_to_key


class Opened(NamedTuple):
    """An open archive: where to read, and the file that images are byte ranges of. It is final after the last read."""

    reader: Reader
    container: Container
    compression: Compression | None


@contextmanager
def open_archive(root: bytes, path: str, work: Path | None) -> Iterator[Opened]:
    """Open the archive at `path` below `root`. A compressed one is unpacked below `work`, if that is given.

    Raises DataprepError if it is not a regular file, DataRejected if its compressed data is damaged, TryLater if it
    changes meanwhile.
    """
    with FileReader(os.path.join(root, encode_name(path))) as file:
        if not file.is_regular:
            raise DataprepError(f"{decode_name(file.path)} is not a regular file; remove it, or use --ignore")
        compression = compression_of(file.read_at(0, 6))
        if compression is None:
            yield Opened(file, Container(path, *file.identity), None)
        elif work is None:
            yield from _streamed(file, path, compression)
        else:
            with FileReader(_spool(file, path, compression, work)) as spool:
                yield Opened(spool, Container(f"{IN_WORK}{UNPACKED}/{path}", *spool.identity), compression)
        file.check_unchanged()


def _streamed(file: FileReader, path: str, compression: Compression) -> Iterator[Opened]:
    """Yield a stream of the unpacked bytes."""
    with open(file.path, "rb", buffering=0) as source:
        stream = StreamReader(decompressed(source, compression, path_to_key(path)))
        yield Opened(stream, Container(f"{IN_WORK}{UNPACKED}/{path}", 0, file.identity[1]), compression)


def unpacked_size(opened: Opened) -> int:
    """Return the bytes of an archive after decompression. It reads a stream to its end."""
    return opened.reader.exhaust() if isinstance(opened.reader, StreamReader) else opened.reader.size or 0


def unpacked_notice(count: int, total: int, is_dry_run: bool) -> str:
    """Return the sentence about the disk space of unpacked archives."""
    archives = "1 compressed archive" if count == 1 else f"{count:,} compressed archives"
    verb = "would be" if is_dry_run else "was" if count == 1 else "were"
    return (
        f"{archives} {verb} unpacked to {format_size(total)} in OUT/.work, which is removed when the dataset is sealed"
    )


def _spool(file: FileReader, path: str, compression: Compression, work: Path) -> bytes:
    """Unpack an archive below `work`, unless an earlier run has done so; return the path of the unpacked file."""
    target = os.path.join(os.fsencode(work), UNPACKED.encode(), encode_name(path))
    record = target + b".json"
    origin = list(file.identity)
    if _is_current(target, record, origin):
        return target
    folder, name = os.path.split(target)
    os.makedirs(folder, exist_ok=True)
    for left in os.listdir(folder):  # by a killed job
        if left.startswith(name) and left.endswith(b".part"):
            os.unlink(os.path.join(folder, left))
    part = target + b".%d.part" % os.getpid()
    try:
        size = _unpack(file, path, compression, part)
        os.replace(part, target)
        _write_record(record, {"archive": origin, "unpacked": [size, os.stat(target).st_mtime_ns]})
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
    return target


def _unpack(file: FileReader, path: str, compression: Compression, part: bytes) -> int:
    with open(file.path, "rb", buffering=0) as source, open(part, "wb") as unpacked:
        for piece in decompressed(source, compression, path_to_key(path)):
            unpacked.write(piece)
        unpacked.flush()
        os.fsync(unpacked.fileno())
        size = unpacked.tell()
    file.check_unchanged()
    # The time of the archive: the same after another unpacking, so the plan remains valid.
    os.utime(part, ns=(file.identity[1], file.identity[1]))
    return size


def _is_current(target: bytes, record: bytes, origin: list[int]) -> bool:
    """Return True if the unpacked file is complete and came from the archive as it is now."""
    try:
        with open(record, "rb") as file:
            noted = json.load(file)
        status = os.stat(target)
        return bool(noted == {"archive": origin, "unpacked": [status.st_size, status.st_mtime_ns]})
    except (OSError, ValueError):
        return False


def _write_record(record: bytes, values: dict[str, list[int]]) -> None:
    part = record + b".part"
    with open(part, "w") as file:
        json.dump(values, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, record)
