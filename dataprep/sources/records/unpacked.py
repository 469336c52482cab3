"""Unpack images into .work, once, from files that can only be read from the beginning, such as a compressed tar."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from dataprep.items import IN_WORK, UNPACKED, ByteRange, Container, size_and_time
from schemas.storage.files import sync

Entry = tuple[dict[str, Any], bytes]  # values of an image as JSON, and its bytes
Unpacked = tuple[dict[str, Any], ByteRange]


def unpacked(path: Path, work: Path | None, entries: Callable[[], Iterable[Entry]]) -> Iterator[Unpacked]:
    """Yield the values of each entry of `path`, and the place of its bytes in a file below `work`.

    `entries` reads `path` from the beginning. It is called only if the bytes were not unpacked before from the same
    file, by size and time. If `work` is None nothing is stored, so the places cannot be read. `entries` may raise an
    error; then nothing remains.
    """
    size, mtime_ns = size_and_time(path.stat())
    if work is None:
        at = 0
        for values, data in entries():
            yield values, ByteRange(Container(f"{IN_WORK}{path.name}", 0, mtime_ns), at, len(data))
            at += len(data)
        return
    identity = hashlib.sha256(f"{path.name}\0{size}\0{mtime_ns}".encode("utf-8", "surrogateescape")).hexdigest()[:16]
    folder = work / UNPACKED
    data_file, index = folder / f"{identity}.bin", folder / f"{identity}.jsonl"
    if not index.is_file():
        _unpack(folder, data_file, index, entries(), mtime_ns)
    container = Container(f"{IN_WORK}{UNPACKED}/{data_file.name}", *size_and_time(data_file.stat()))
    at = 0
    with index.open(encoding="utf-8") as lines:
        for line in lines:
            values, length = json.loads(line)
            yield values, ByteRange(container, at, length)
            at += length


def _unpack(folder: Path, data_file: Path, index: Path, entries: Iterable[Entry], mtime_ns: int) -> None:
    """Write the bytes and then the index, whose name shows that both are complete."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [path.with_name(f"{path.name}.part") for path in (data_file, index)]
    try:
        with parts[0].open("wb") as data_part, parts[1].open("w", encoding="utf-8") as index_part:
            for values, data in entries:
                data_part.write(data)
                index_part.write(json.dumps([values, len(data)]) + "\n")
        os.utime(parts[0], ns=(mtime_ns, mtime_ns))  # the same in each job, since the plan contains it
        for part, path in zip(parts, (data_file, index), strict=True):
            sync(part)
            part.rename(path)
        sync(folder)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)
