"""An image is a byte range of a container: planned, read, checked and sealed as a file in a folder is."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataprep.errors import DataprepError
from dataprep.items import ByteRange, Container, FoundClass, Item, ScanEntry, size_and_time
from dataprep.options import Budget, SourceOptions
from dataprep.sources import SOURCES
from dataprep.sources.source import Source
from schemas.dataset import load_dataset
from tests.dataprep.examples import shard


def scan(path: Path, _options: SourceOptions) -> Iterator[ScanEntry]:
    """Yield the members of a zip whose paths are <class>/<image>."""
    status = path.stat()
    container = Container(path.name, *size_and_time(status))
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = member.filename.split("/")[0]
            yield FoundClass(name, None)
            start = member.header_offset + 30 + len(member.filename)
            codec = "deflate" if member.compress_type else "stored"
            place = ByteRange(container, start, member.compress_size, codec, member.CRC)
            yield Item(member.filename, name, None, member.file_size, container.mtime_ns, place)


@pytest.fixture(params=[zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def archive(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A zip of the images below `raw`, whose layout `toy` is in the table."""
    monkeypatch.setitem(SOURCES, "toy", Source(scan, "a zip"))
    path = tmp_path / "images.zip"
    with zipfile.ZipFile(path, "w", request.param) as made:
        for file in sorted([*raw.rglob("*.png"), *raw.rglob("*.jpg")]):
            made.write(file, file.relative_to(raw).as_posix())
    return path


def shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.mindrecord*")}


def test_the_same_images_give_the_same_shards_from_a_container(raw: Path, archive: Path, tmp_path: Path) -> None:
    shard(raw, tmp_path / "folders")
    shard(archive, tmp_path / "archive", layout="toy")
    assert shards(tmp_path / "folders") == shards(tmp_path / "archive")


def test_a_damaged_range_is_a_reject(archive: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        member = opened.infolist()[3]
    data = bytearray(archive.read_bytes())
    data[member.header_offset + 30 + len(member.filename) + member.compress_size // 2] ^= 0xFF
    archive.write_bytes(data)
    shard(archive, tmp_path / "out", layout="toy", max_rejects=Budget(1, False))
    assert load_dataset(tmp_path / "out").rejected == {"corrupt": 1}


def test_a_container_that_changes_is_not_mixed_with_the_old_one(archive: Path, tmp_path: Path) -> None:
    shard(archive, tmp_path / "out", layout="toy")
    (tmp_path / "out" / "dataset.json").unlink()
    data = archive.read_bytes()
    archive.write_bytes(data + b"\0")
    with pytest.raises(DataprepError, match="has changed since"):
        shard(archive, tmp_path / "out", layout="toy")
