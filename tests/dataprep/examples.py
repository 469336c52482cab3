"""What tests of several packages of dataprep share: damage, and ways to look at a dataset."""

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from dataprep.build import worker
from dataprep.cli.commands import main
from dataprep.images.decoding import decode
from dataprep.mindrecord.reader import ShardReader
from schemas.dataset import load_dataset
from tests.examples import ROOT

IMAGES = ROOT / "tests" / "cases" / "images"
MUTATIONS = int(os.environ.get("DATAPREP_FUZZ", "400"))


def run(*args: Any) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args], catch_exceptions=False)


def keys(out: Path) -> list[str]:
    found = []
    for split in load_dataset(out).splits.values():
        for shard in split.shards:
            with ShardReader(out / shard.name) as reader:
                found += [row["key"] for row in reader]
    return found


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Flip, cut, repeat, insert or blank a part of the bytes, more often near the start, where headers are."""
    mutated = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = int(len(mutated) * rng.random() ** rng.choice((1, 4)))
        size = rng.choice((1, 1, 2, 8, 64))
        kind = rng.randrange(5)
        if kind == 0:
            mutated[at : at + size] = rng.randbytes(size)
        elif kind == 1:
            del mutated[at:]
        elif kind == 2:
            mutated[at:at] = mutated[at : at + size]
        elif kind == 3:
            mutated[at : at + size] = rng.choice((b"\0", b"\xff")) * size
        else:
            del mutated[at : at + size]
    return bytes(mutated)


def without_tables(jpeg: bytes) -> bytes:
    """A JPEG whose quantisation tables are gone: its header is fine, and MindSpore's decoder dies over it."""
    at = 2
    while jpeg[at + 1] != 0xDB:
        at += 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
    end = at
    while jpeg[end + 1] == 0xDB:
        end += 2 + int.from_bytes(jpeg[end + 2 : end + 4], "big")
    return jpeg[:at] + jpeg[end:]


class ClosedScandir:
    """os.scandir, for which the folders of these names end with an error after `entries` entries."""

    def __init__(self, errors: dict[str, int], entries: int = 0) -> None:
        self._errors = errors
        self._entries = entries
        self._scandir = os.scandir

    @contextmanager
    def __call__(self, path: bytes | str | int) -> Iterator[Iterator["os.DirEntry[bytes]"]]:
        number = None if isinstance(path, int) else self._errors.get(os.fsdecode(path).rpartition("/")[2])
        if number and not self._entries:
            raise OSError(number, os.strerror(number), path)
        with self._scandir(path) as entries:
            yield self._until(entries, number) if number else entries

    def _until(self, entries: Iterator["os.DirEntry[bytes]"], number: int) -> Iterator["os.DirEntry[bytes]"]:
        yield from islice(entries, self._entries)
        raise OSError(number, os.strerror(number))


DEADLY = b"an image over which the kernel kills the worker"


def _die(data: bytes, *rest: Any) -> Any:
    if data == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    return decode(data, *rest)


def die_over_an_image(task: Any) -> Any:
    """build_shard, in a worker that the kernel kills over one file, as it does when memory runs out."""
    worker.decode = _die  # type: ignore[attr-defined]
    return worker.build_shard(task)
