"""Members as Python's tarfile and zipfile and GNU tar see them."""

import io
import os
import random
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from dataprep.errors import DataprepError
from dataprep.items import ByteRange
from dataprep.options import SourceOptions
from dataprep.sources.archives.member import Member
from dataprep.sources.archives.reading import FileReader
from dataprep.sources.archives.streams import COMPRESSIONS
from dataprep.sources.archives.tar_members import tar_members
from dataprep.sources.archives.zip_members import zip_members
from dataprep.sources.detect import detect_layout
from tests.dataprep.examples import picture
from tests.dataprep.sources.archives.packing import compressed, items, reasons, scan, tar_bytes

LETTERS = "abcXYZ019 ._-é漢\udce9%\\'\"\n"


def random_names(rng: random.Random) -> list[str]:
    return ["/".join(
        "x" + "".join(rng.choice(LETTERS) for _ in range(rng.choice([3, 20, 90, 130])))
        for _ in range(rng.randint(1, 4))
    ) for _ in range(12)]  # fmt: skip


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("seed", range(5))
def test_tarfile_sees_the_same_members(tmp_path: Path, kind: int, seed: int) -> None:
    rng = random.Random(seed)
    members = [(name, rng.randbytes(rng.choice([0, 1, 511, 512, 513, 9000]))) for name in random_names(rng)]
    path = tmp_path / "a.tar"
    path.write_bytes(tar_bytes(members, format=kind, encoding="utf-8", errors="surrogateescape"))
    with tarfile.open(path, encoding="utf-8", errors="surrogateescape") as opened:
        theirs = [(m.name.encode("utf-8", "surrogateescape"), m.offset_data, m.size) for m in opened]
    with FileReader(os.fsencode(path)) as reader:
        ours = [(m.name, m.offset, m.size) for m in tar_members(reader, "a") if isinstance(m, Member)]
    assert ours == theirs
    assert len(ours) == len(members)


@pytest.mark.parametrize("seed", range(5))
def test_zipfile_sees_the_same_members(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as made:
        for name in random_names(rng):
            method = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
            made.writestr(name.replace("\udce9", "e").replace("\n", ""), rng.randbytes(rng.choice([0, 700])), method)
    with zipfile.ZipFile(path) as opened:
        theirs = [(m.filename.encode(), m.compress_size, m.file_size, m.CRC) for m in opened.infolist()]
    with FileReader(os.fsencode(path)) as reader:
        members = [m for m in zip_members(reader, "a") if isinstance(m, Member)]
    assert [(m.name, m.length, m.size, m.checksum) for m in members] == theirs
    assert not any(m.problem for m in members)


@pytest.mark.skipif(shutil.which("tar") is None, reason="needs GNU tar")
@pytest.mark.parametrize("kind", ["v7", "oldgnu", "gnu", "ustar", "posix"])
def test_tars_of_gnu_tar_are_read(tmp_path: Path, kind: str) -> None:
    raw = tmp_path / "raw"
    (raw / "cat").mkdir(parents=True)
    (raw / "dog").mkdir()
    (raw / "cat" / "1.jpg").write_bytes(picture(1))
    (raw / "dog" / "2.jpg").write_bytes(picture(2))
    os.link(raw / "cat" / "1.jpg", raw / "dog" / "hard.jpg")
    (raw / "dog" / "soft.jpg").symlink_to("../cat/1.jpg")
    path = tmp_path / "a.tar"
    made = subprocess.run(["tar", f"--format={kind}", "-cf", path, "-C", raw, "."], check=False, capture_output=True)
    if made.returncode:
        pytest.skip("this tar does not know the format")
    found = items(scan(path))
    data = path.read_bytes()
    contents = {}
    for key, item in found.items():
        assert isinstance(item.place, ByteRange)
        contents[key] = data[item.place.offset : item.place.offset + item.place.length]
    assert contents == {
        "cat/1.jpg": picture(1), "dog/2.jpg": picture(2), "dog/hard.jpg": picture(1), "dog/soft.jpg": picture(1),
    }  # fmt: skip


@pytest.mark.skipif(shutil.which("tar") is None, reason="needs GNU tar")
@pytest.mark.parametrize("kind", ["gnu", "posix"])
def test_sparse_members_of_gnu_tar_are_rejects(tmp_path: Path, kind: str) -> None:
    raw = tmp_path / "raw"
    (raw / "cat").mkdir(parents=True)
    with (raw / "cat" / "1.jpg").open("wb") as file:
        for number in range(30):  # more pieces than one header has
            file.seek(number << 20)
            file.write(picture(number))
    (raw / "cat" / "2.jpg").write_bytes(picture(2))
    path = tmp_path / "a.tar"
    command = ["tar", f"--format={kind}", "-S", "--sort=name", "-cf", path, "-C", raw, "."]
    subprocess.run(command, check=True, capture_output=True)
    if path.stat().st_size > 10 << 20:
        pytest.skip("the file system has no sparse files")
    found = scan(path)
    assert list(items(found)) == ["cat/2.jpg"]
    assert reasons(found) == {"cat/1.jpg": "unsupported_format"}


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
def test_several_streams_one_after_another_are_one(tmp_path: Path, kind: str) -> None:
    if kind == "zst":
        pytest.importorskip("zstandard", reason="pip install zstandard")
    data = tar_bytes([("cat/1.jpg", picture(1)), ("dog/2.jpg", picture(2))])
    path = tmp_path / f"a.tar.{kind}"
    path.write_bytes(compressed(data[:1000], kind) + compressed(data[1000:], kind) + bytes(100))
    for work in (None, tmp_path / "work"):
        assert sorted(items(scan(path, options=SourceOptions(work=work)))) == ["cat/1.jpg", "dog/2.jpg"]
    (unpacked,) = (tmp_path / "work").rglob("*.tar.???" if kind != "gz" and kind != "xz" else "*.tar.??")
    assert unpacked.read_bytes() == data


def test_a_stream_is_read_as_the_file_is(tmp_path: Path) -> None:
    members = [(f"cat/{number}", picture(number)) for number in range(50)] + [("dog/big.jpg", bytes(3 << 20))]
    path = tmp_path / "a.tar.gz"
    path.write_bytes(compressed(tar_bytes(members), "gz"))
    streamed = items(scan(path))
    unpacked = items(scan(path, options=SourceOptions(work=tmp_path / "work")))
    assert streamed.keys() == unpacked.keys()
    assert len(streamed) == 51
    assert [item.place.offset for item in streamed.values()] == [item.place.offset for item in unpacked.values()]


def test_without_the_package_a_zstandard_tar_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.tar.zst"
    path.write_bytes(COMPRESSIONS[-1].magic + bytes(20))
    for module in ("zstandard", "compression.zstd"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    assert detect_layout(path, SourceOptions()) == "tar"
    with pytest.raises(DataprepError, match="pip install zstandard"):
        scan(path)


def test_what_a_killed_job_left_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(compressed(tar_bytes([("cat/1.jpg", picture(1))]), "gz"))
    folder = tmp_path / "work" / "unpacked"
    folder.mkdir(parents=True)
    (folder / "a.tar.gz.1.part").write_bytes(b"half")
    scan(path, options=SourceOptions(work=tmp_path / "work"))
    assert sorted(os.listdir(folder)) == ["a.tar.gz", "a.tar.gz.json"]


def test_an_archive_that_changed_is_unpacked_again(tmp_path: Path) -> None:
    path, options = tmp_path / "a.tar.gz", SourceOptions(work=tmp_path / "work")
    path.write_bytes(compressed(tar_bytes([("cat/1.jpg", picture(1))]), "gz"))
    scan(path, options=options)
    path.write_bytes(compressed(tar_bytes([("cat/1.jpg", picture(1)), ("cat/2.jpg", picture(2))]), "gz"))
    assert sorted(items(scan(path, options=options))) == ["cat/1.jpg", "cat/2.jpg"]


def test_a_hundred_thousand_members_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    info = tarfile.TarInfo()
    buffer = io.BytesIO()
    for number in range(100_000):
        info.name = f"c{number % 100}/{number}.jpg"
        buffer.write(info.tobuf(tarfile.USTAR_FORMAT))
    path.write_bytes(buffer.getvalue() + bytes(1024))
    assert len(items(scan(path))) == 100_000
