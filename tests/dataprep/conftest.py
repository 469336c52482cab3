"""Tiny raw folders, drawn exactly, so that a test can say what must become of every file."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dataprep import pipeline
from dataprep.options import ShardOptions
from dataprep.pipeline import Summary

QUICK = ShardOptions(engine="serial", workers=1, prove="off")


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def picture(number: int, kind: str = "JPEG", size: tuple[int, int] = (24, 16)) -> bytes:
    """A small image that differs for each number."""
    return encoded(Image.new("RGB", size, (number * 7 % 256, number * 31 % 256, number * 101 % 256)), kind)


class Silent:
    """A Progress that shows nothing and remembers which shards were built, and which engine took over why."""

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
    """Every file of the set, without the work folder."""
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Forty images in the classes cat, dog, and two files that no one could want."""
    source = tmp_path / "raw"
    for number in range(40):
        folder = source / ("cat" if number % 2 else "dog")
        folder.mkdir(parents=True, exist_ok=True)
        kind = "png" if number % 4 < 2 else "jpg"
        (folder / f"{number:02d}.{kind}").write_bytes(picture(number, {"jpg": "JPEG"}.get(kind, "PNG")))
    (source / "cat" / ".DS_Store").write_bytes(b"x")
    (source / "cat" / "Thumbs.db").write_bytes(b"x")
    return source


@pytest.fixture
def sealed(raw: Path, tmp_path: Path) -> Path:
    """A sealed dataset of `raw` in several shards."""
    shard(raw, tmp_path / "out", num_shards=3)
    return tmp_path / "out"


Files = Callable[[dict[str, bytes]], Path]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Writes files by relative name below a source folder, which it returns."""

    def write(contents: dict[str, bytes]) -> Path:
        for name, data in contents.items():
            path = tmp_path / "raw" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return tmp_path / "raw"

    return write
