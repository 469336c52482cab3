"""Tars, tars of tars and zips whose members are images in folders."""

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataprep.errors import DataprepError, DataRejected
from dataprep.items import UNPACKED, Ignored, Item, Notice, Reject, ScanEntry
from dataprep.options import Budget, SourceOptions
from dataprep.sources import find_source
from dataprep.sources.detect import detect_layout
from schemas.dataset import load_dataset
from tests.dataprep.conftest import digests, picture, shard

IMAGES = {f"{'ab'[number % 2]}/{number}.jpg": picture(number) for number in range(20)}
Put = Callable[[str, bytes], Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    def write(name: str, data: bytes) -> Path:
        path = tmp_path / "in" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return path

    return write


def tar(files: dict[str, bytes], edit: Callable[[tarfile.TarFile], None] = lambda _: None, **options: Any) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", **options) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        edit(archive)
    return buffer.getvalue()


def zipped(files: dict[str, bytes], **options: Any) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def link(name: str, target: str, kind: bytes) -> Callable[[tarfile.TarFile], None]:
    def add(archive: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        archive.addfile(info)

    return add


def tar_of_tars() -> bytes:
    classes = {one: {n.split("/")[1]: d for n, d in IMAGES.items() if n.startswith(one)} for one in "ab"}
    return tar({f"{name}.tar": tar(files) for name, files in classes.items()})


def scan(path: Path, layout: str = "tar", **options: Any) -> list[ScanEntry]:
    return list(find_source(layout).scan(path, SourceOptions(**options)))


def found(entries: list[ScanEntry]) -> dict[str, str]:
    """What became of each member: class and split of an image, reason of a reject, or rule."""
    result = {}
    for entry in entries:
        if isinstance(entry, Item):
            result[entry.key] = f"{entry.split or '-'} {entry.class_name}"
        elif isinstance(entry, Reject):
            result[entry.key] = entry.reason
        elif isinstance(entry, Ignored):
            result[entry.key] = entry.rule
    return result


def shards(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in digests(folder).items() if ".mindrecord" in name}


def zstandard_data(data: bytes) -> bytes:
    return bytes(pytest.importorskip("zstandard").compress(data))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("t.tar", tar(IMAGES)),
        ("t.tar", tar({f"./{name}": data for name, data in IMAGES.items()}, format=tarfile.GNU_FORMAT)),
        ("t.tar", tar({f"photos/{name}": data for name, data in IMAGES.items()})),
        ("t.tar", tar_of_tars()),
        ("t.zip", zipped(IMAGES)),
        ("t.zip", zipped(IMAGES, compression=zipfile.ZIP_DEFLATED)),
        ("t.tar.gz", gzip.compress(tar(IMAGES))),
        ("t.tar.bz2", bz2.compress(tar(IMAGES))),
        ("t.tar.xz", lzma.compress(tar(IMAGES))),
        ("t.tar.zst", tar(IMAGES)),
    ],
    ids=["tar", "gnu", "top", "tars", "zip", "deflated", "gz", "bz2", "xz", "zst"],
)
def test_the_same_images_give_the_same_shards_as_from_folders(tmp_path: Path, put: Put, name: str, data: bytes) -> None:
    for key, image in IMAGES.items():
        path = tmp_path / "folders" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image)
    shard(tmp_path / "folders", tmp_path / "expected")
    shard(put(name, zstandard_data(data) if name.endswith("zst") else data), tmp_path / "out")
    assert shards(tmp_path / "out") == shards(tmp_path / "expected")
    assert not (tmp_path / "out" / ".work" / UNPACKED).exists()


def test_a_folder_of_tars_is_one_set(tmp_path: Path, put: Put) -> None:
    names = list(IMAGES)
    put("0.tar", tar({name: IMAGES[name] for name in names[:9]}))
    folder = put("1.tar", tar({name: IMAGES[name] for name in names[9:]})).parent
    shard(folder, tmp_path / "out")
    assert load_dataset(tmp_path / "out").written == 20


def test_first_folders_that_are_splits_give_the_splits(put: Put) -> None:
    entries = scan(put("t.tar", tar({"train/a/1.jpg": b"x", "val/a/2.jpg": b"x", "train/b/x/3.jpg": b"x"})))
    assert found(entries) == {"train/a/1.jpg": "train a", "val/a/2.jpg": "val a", "train/b/x/3.jpg": "train b"}


def test_every_kind_of_member_is_counted(put: Put) -> None:
    files = {
        "a/1.jpg": picture(1), "a/../../2.jpg": picture(2), "/b/3.jpg": picture(3), "a/noext": picture(4),
        "a/x.txt": b"x",
        "a/.hidden.jpg": b"x", "__MACOSX/a/1.jpg": b"x", "top.jpg": picture(5), "a/1.jpg ": picture(6),
    }  # fmt: skip

    def more(archive: tarfile.TarFile) -> None:
        link("a/hard.jpg", "a/1.jpg", tarfile.LNKTYPE)(archive)
        link("b/soft.jpg", "../a/1.jpg", tarfile.SYMTYPE)(archive)
        link("a/loop.jpg", "loop.jpg", tarfile.SYMTYPE)(archive)
        link("a/gone.jpg", "nowhere.jpg", tarfile.SYMTYPE)(archive)
        link("a/fifo.jpg", "", tarfile.FIFOTYPE)(archive)
        info = tarfile.TarInfo("a/1.jpg")
        info.size = 1
        archive.addfile(info, io.BytesIO(b"y"))

    path = put("t.tar", tar(files, more))
    entries = scan(path)
    assert found(entries) == {
        "a/1.jpg": "duplicate_key",
        "a/../../2.jpg": "- a",
        "b/3.jpg": "- b",
        "a/noext": "- a",
        "a/x.txt": "no image by name or content",
        "a/.hidden.jpg": "hidden",
        "__MACOSX/a/1.jpg": "__macosx",
        "top.jpg": "not in a class folder",
        "a/1.jpg ": "- a",
        "a/hard.jpg": "- a",
        "b/soft.jpg": "- b",
        "a/loop.jpg": "dangling_link",
        "a/gone.jpg": "dangling_link",
        "a/fifo.jpg": "not_a_regular_file",
    }
    [first, *_] = [entry for entry in entries if isinstance(entry, Item) and entry.key == "a/1.jpg"]
    [linked] = [entry for entry in entries if isinstance(entry, Item) and entry.key == "a/hard.jpg"]
    assert first.place == linked.place
    assert "--ignore *.jpg" in set(found(scan(path, ignore=("*.jpg",))).values())


def test_names_of_any_kind_are_only_names(put: Put) -> None:
    names = ["a/" + "x" * 300 + ".jpg", "a/猫.jpg", "b/\udcff.jpg", "b/new\nline.jpg", "b/100% .jpg"]
    for kind in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        data = tar(dict.fromkeys(names, b"x"), format=kind, encoding="utf-8", errors="surrogateescape")
        keys = [entry.key for entry in scan(put("t.tar", data)) if isinstance(entry, Item)]
        assert keys == [names[0], "a/猫.jpg", "b/%FF.jpg", "b/new\nline.jpg", "b/100% .jpg"]


@pytest.mark.parametrize("end", [700, 512 * 3 + 100, -1100])
def test_a_cut_tar_is_rejected_and_nothing_is_sealed(tmp_path: Path, put: Put, end: int) -> None:
    data = tar(IMAGES)
    last = len(data.rstrip(b"\0"))
    path = put("t.tar", data[: end if end > 0 else last + end])
    with pytest.raises(DataRejected, match="is damaged"):
        shard(path, tmp_path / "out")
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_a_tar_without_its_end_marker_is_a_notice(put: Put) -> None:
    data = tar({"a/1.jpg": b"x" * 512})
    notices = [entry.text for entry in scan(put("t.tar", data[:1024])) if isinstance(entry, Notice)]
    assert any("no end-of-archive marker" in text for text in notices)


def test_a_damaged_header_between_members_is_rejected(put: Put) -> None:
    data = bytearray(tar({"a/1.jpg": b"x" * 512, "a/2.jpg": b"y" * 512}))
    data[1024 + 150] ^= 1
    with pytest.raises(DataRejected, match="header at byte 1024"):
        scan(put("t.tar", bytes(data)))


@pytest.mark.parametrize("data", [b"", b"\0" * 10240, b"no tar" * 500])
def test_what_is_no_tar_is_one_sentence(tmp_path: Path, put: Put, data: bytes) -> None:
    with pytest.raises(DataprepError):
        shard(put("t.tar", data), tmp_path / "out", layout="tar")


@pytest.mark.parametrize("position", [0.3, 0.9, -4])
def test_a_damaged_compressed_tar_is_rejected_and_leaves_nothing(tmp_path: Path, put: Put, position: float) -> None:
    data = bytearray(gzip.compress(tar(IMAGES)))
    at = int(position * len(data)) if position > 0 else int(len(data) + position)
    data[at] ^= 0xFF
    with pytest.raises(DataRejected, match="is damaged"):
        shard(put("t.tar.gz", bytes(data)), tmp_path / "out")
    assert not list((tmp_path / "out" / ".work").glob("unpacked/*"))


def local_header(data: bytes, name: str) -> int:
    return data.index(b"PK\3\4", data.index(name.encode()) - 30)


def test_members_of_a_damaged_zip_are_rejects(put: Put, tmp_path: Path) -> None:
    files = {f"a/{number}.jpg": picture(number) for number in range(300)}
    data = bytearray(zipped(files))
    data[local_header(bytes(data), "a/3.jpg")] ^= 0xFF
    at = local_header(bytes(data), "a/4.jpg")
    data[at + 100] ^= 0xFF
    central = data.index(b"PK\1\2")
    entry = data.index(b"a/5.jpg", central) - 46
    struct.pack_into("<H", data, entry + 8, struct.unpack_from("<H", data, entry + 8)[0] | 1)
    entry = data.index(b"a/6.jpg", central) - 46
    struct.pack_into("<H", data, entry + 10, 93)
    shard(put("t.zip", bytes(data)), tmp_path / "out", max_rejects=Budget(9, False))
    assert load_dataset(tmp_path / "out").rejected == {"corrupt": 2, "unsupported_format": 2}


@pytest.mark.parametrize("damage", ["no directory", "cut", "garbage"])
def test_a_zip_without_a_usable_directory_is_rejected(put: Put, tmp_path: Path, damage: str) -> None:
    data = zipped(IMAGES)
    start = data.index(b"PK\1\2")
    broken = {
        "no directory": data[:start],
        "cut": data[:-30],
        "garbage": data[:start] + b"\xff" * 40 + data[start + 40 :],
    }
    with pytest.raises(DataRejected, match="is damaged"):
        shard(put("t.zip", broken[damage]), tmp_path / "out")


def test_a_zip64_is_read(put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 5)
    shard(put("t.zip", zipped(IMAGES)), tmp_path / "out")
    assert load_dataset(tmp_path / "out").written == 20


def test_layouts_are_told_apart(put: Put) -> None:
    assert detect_layout(put("t.tar", tar(IMAGES)), SourceOptions()) == "tar"
    assert detect_layout(put("o.tar", tar_of_tars()), SourceOptions()) == "tars"
    assert detect_layout(put("t.zip", zipped(IMAGES)), SourceOptions()) == "zip"
    assert detect_layout(put("w.tar", tar({"1.jpg": b"x", "1.cls": b"0"})), SourceOptions()) == "webdataset"


def test_a_killed_job_does_not_unpack_again(put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put("t.tar.gz", gzip.compress(tar(IMAGES)))
    shard(path, tmp_path / "whole")

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dataprep.pipeline.seal", stop)
        with pytest.raises(KeyboardInterrupt):
            shard(path, tmp_path / "killed")
    with monkeypatch.context() as patch:
        patch.setattr(gzip, "GzipFile", stop)
        shard(path, tmp_path / "killed")
    assert digests(tmp_path / "killed") == digests(tmp_path / "whole")
