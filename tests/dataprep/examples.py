"""Helpers of dataprep's tests: images, jobs, damage, and ways to read a dataset."""

import io
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from PIL import Image

from dataprep import pipeline
from dataprep.build import worker
from dataprep.cli.commands import main
from dataprep.images.decoding import decode
from dataprep.mindrecord.reader import ShardReader
from dataprep.options import ShardOptions
from dataprep.pipeline import Summary
from schemas.dataset import load_dataset
from tests.examples import ROOT

IMAGES = ROOT / "tests" / "cases" / "images"
MUTATIONS = int(os.environ.get("DATAPREP_FUZZ", "400"))
QUICK = ShardOptions(engine="serial", workers=1, prove="off")
Files = Callable[[dict[str, bytes]], Path]


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def picture(number: int, kind: str = "JPEG", size: tuple[int, int] = (24, 16)) -> bytes:
    """Return a small image of one colour; each number has another colour."""
    return encoded(Image.new("RGB", size, (number * 7 % 256, number * 31 % 256, number * 101 % 256)), kind)


class Silent:
    """A Progress that shows nothing and records the built shards, engine fallbacks and moves of SOURCE."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.fallbacks: set[str] = set()
        self.moves: list[tuple[str, str]] = []

    def scanning(self, found: int) -> None:
        pass

    def planned(self, plan: Any, missing: Any) -> None:
        pass

    def under_way(self, items: int) -> None:
        pass

    def moved(self, before: str, now: str) -> None:
        self.moves.append((before, now))

    def fallback(self, what: str) -> None:
        self.fallbacks.add(what)

    def built(self, receipt: Any, planned: Any) -> None:
        self.names.append(planned.name)


def shard(source: Path, out: Path, **options: Any) -> Summary:
    return pipeline.shard(source, out, replace(QUICK, **options), Silent())


def digests(out: Path) -> dict[str, bytes]:
    """Return the bytes of each file of the dataset by name, without the work folder."""
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


def run(*args: Any) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args], catch_exceptions=False)


def keys(out: Path) -> list[str]:
    found = []
    for split in load_dataset(out).splits.values():
        for entry in split.shards:
            with ShardReader(out / entry.name) as reader:
                found += [row["key"] for row in reader]
    return found


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Return the bytes with one to three random changes, more of them near the start, where headers are."""
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
    """Return the JPEG without its quantisation tables: its header is valid, but MindSpore's decoder crashes on it."""
    at = 2
    while jpeg[at + 1] != 0xDB:
        at += 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
    end = at
    while jpeg[end + 1] == 0xDB:
        end += 2 + int.from_bytes(jpeg[end + 2 : end + 4], "big")
    return jpeg[:at] + jpeg[end:]


class ClosedScandir:
    """An os.scandir that raises an OSError after `entries` entries of the folders named in `errors`."""

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


DEADLY = b"an image at which the kernel kills the worker"


def _die(data: bytes, *rest: Any) -> Any:
    if data == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    return decode(data, *rest)


def die_over_an_image(task: Any) -> Any:
    """Call build_shard in a worker that is killed at the image DEADLY, as the kernel does when memory runs out."""
    worker.decode = _die  # type: ignore[attr-defined]
    return worker.build_shard(task)
