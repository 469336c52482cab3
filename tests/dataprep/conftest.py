"""Fixtures: small raw folders with known contents, and a sealed dataset."""

from pathlib import Path

import pytest

from tests.dataprep.examples import Files, picture, shard


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Forty images in the classes cat and dog, and two files that are ignored by rule."""
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


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A function that writes files by relative name below a source folder and returns the folder."""

    def write(contents: dict[str, bytes]) -> Path:
        for name, data in contents.items():
            path = tmp_path / "raw" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return tmp_path / "raw"

    return write
