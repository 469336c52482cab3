"""Tar headers of every kind, names, links, and damage."""

import io
import tarfile
from pathlib import Path

import pytest

from dataprep.build.read_ahead import read_item, wanted_item
from dataprep.errors import DataprepError, DataRejected
from dataprep.items import FoundClass, Item
from dataprep.options import Budget, SourceOptions
from dataprep.plan.store import PlannedItem
from schemas.dataset import load_dataset
from tests.dataprep.examples import picture, shard
from tests.dataprep.sources.archives.packing import items, notices, reasons, rules, scan, tar_bytes

IMAGE = picture(1)
TWO = [("cat/1.jpg", IMAGE), ("dog/2.jpg", picture(2))]


def data_of(root: Path, item: Item) -> bytes:
    base = str(root.parent if root.is_file() else root)
    wanted = wanted_item(base, PlannedItem(item.key, 0, item.size, item.mtime_ns, item.place), 1 << 30)
    return read_item(wanted.path, wanted.item, wanted.max_bytes)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "images.tar"


def member(name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, len(data), target
    return info


def write(path: Path, members: list[tuple[tarfile.TarInfo, bytes]], kind: int = tarfile.GNU_FORMAT) -> Path:
    with tarfile.open(path, "w", format=kind, encoding="utf-8", errors="surrogateescape") as made:
        for info, data in members:
            made.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_are_read_in_every_format(path: Path, kind: int) -> None:
    name = "cat/" + "d" * 80 + "/" + "e" * 60 + ".jpg"
    path.write_bytes(tar_bytes([(name, IMAGE), *TWO], format=kind))
    found = items(scan(path))
    assert sorted(found) == sorted([name, "cat/1.jpg", "dog/2.jpg"])
    assert data_of(path, found[name]) == IMAGE


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_very_long_and_deep_names_are_names(path: Path, kind: int) -> None:
    names = ["cat/" + "x" * 5000 + ".jpg", "cat/" + "a/" * 3000 + "1.jpg"]
    path.write_bytes(tar_bytes([*((name, IMAGE) for name in names), *TWO], format=kind))
    assert set(names) < set(items(scan(path)))


def test_names_are_only_names(path: Path) -> None:
    names = [
        "/cat/abs.jpg",
        "./cat/dot.jpg",
        "../../cat/up.jpg",
        "cat//twice.jpg",
        "cat/a/../b.jpg",
        "cat/new\nline.jpg",
    ]
    path.write_bytes(tar_bytes([(name, IMAGE) for name in names] + [("dog/1.jpg", IMAGE)]))
    assert sorted(items(scan(path))) == sorted(
        ["cat/abs.jpg", "cat/dot.jpg", "cat/up.jpg", "cat/twice.jpg", "cat/a/b.jpg", "cat/new\nline.jpg", "dog/1.jpg"]
    )


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT])
def test_names_that_are_not_utf8_have_the_keys_of_such_files(path: Path, kind: int) -> None:
    write(path, [(member("cat/caf\udce9.jpg", data=IMAGE), IMAGE), (member("dog/100%25.jpg", data=IMAGE), IMAGE)], kind)
    assert sorted(items(scan(path))) == ["cat/caf%E9.jpg", "dog/100%2525.jpg"]


def test_a_second_member_of_the_same_name_is_a_reject(path: Path) -> None:
    path.write_bytes(tar_bytes([*TWO, ("./cat/1.jpg", picture(9))]))
    found = scan(path)
    assert data_of(path, items(found)["cat/1.jpg"]) == IMAGE
    assert reasons(found) == {"cat/1.jpg": "duplicate_key"}


def test_the_ignore_rules_are_those_of_folders(path: Path) -> None:
    names = [
        "a/1.jpg",
        "a/.DS_Store",
        "a/Thumbs.db",
        "a/._1.jpg",
        "__MACOSX/a/1.jpg",
        ".git/1.jpg",
        "a/x/no.jpg",
        "b/2.jpg",
    ]
    members = [(name, IMAGE) for name in names]
    path.write_bytes(tar_bytes([*members, ("a/notes.txt", b"hello"), ("a/photo.txt", IMAGE), ("readme.txt", b"hello")]))
    found = scan(path, options=SourceOptions(("/a/x/", "never")))
    assert sorted(items(found)) == ["a/1.jpg", "a/photo.txt", "b/2.jpg"]
    assert rules(found) == {
        "a/.DS_Store": "hidden",
        "a/Thumbs.db": "thumbs.db",
        "a/._1.jpg": "appledouble",
        "__MACOSX": "__macosx",
        ".git": "hidden",
        "a/x": "--ignore /a/x/",
        "a/notes.txt": "no image by name or content",
        "readme.txt": "not in a class folder",
    }
    assert any("never" in text for text in notices(found))


def test_a_folder_without_images_is_a_class(path: Path) -> None:
    path.write_bytes(tar_bytes([*TWO, ("empty/", b"")]))
    assert {one.class_name for one in scan(path) if isinstance(one, FoundClass)} == {"cat", "dog", "empty"}


def test_links_have_the_bytes_of_their_target(path: Path) -> None:
    members = [(member("cat/1.jpg", data=IMAGE), IMAGE), (member("store/.blob", data=picture(5)), picture(5))]
    members += [(member("dog/later.jpg", tarfile.SYMTYPE, target="../dog/end.jpg"), b"")]
    members += [(member("dog/hard.jpg", tarfile.LNKTYPE, target="cat/1.jpg"), b"")]
    members += [(member("dog/soft.jpg", tarfile.SYMTYPE, target="../store/.blob"), b"")]
    members += [(member("dog/chain.jpg", tarfile.SYMTYPE, target="soft.jpg"), b"")]
    members += [(member("dog/gone.jpg", tarfile.SYMTYPE, target="nothing.jpg"), b"")]
    members += [(member("dog/out.jpg", tarfile.SYMTYPE, target="../../etc/passwd"), b"")]
    members += [(member("dog/abs.jpg", tarfile.SYMTYPE, target="/etc/passwd"), b"")]
    members += [(member("dog/loop.jpg", tarfile.SYMTYPE, target="loop.jpg"), b"")]
    members += [(member("dog/folder", tarfile.SYMTYPE, target="../cat"), b"")]
    members += [(member("dog/end.jpg", data=picture(7)), picture(7))]
    found = scan(write(path, members))
    assert {key: data_of(path, item) for key, item in items(found).items()} == {
        "cat/1.jpg": IMAGE,
        "dog/hard.jpg": IMAGE,
        "dog/soft.jpg": picture(5),
        "dog/chain.jpg": picture(5),
        "dog/later.jpg": picture(7),
        "dog/end.jpg": picture(7),
    }
    names = ["gone", "out", "abs", "loop"]
    assert reasons(found) == {f"dog/{name}.jpg": "dangling_link" for name in names}
    assert rules(found) == {"store/.blob": "hidden", "dog/folder": "link to a folder"}


def test_devices_and_sparse_members_are_rejects(path: Path) -> None:
    kinds = {"fifo": tarfile.FIFOTYPE, "chr": tarfile.CHRTYPE, "blk": tarfile.BLKTYPE}
    members = [(member(f"cat/{name}", kind), b"") for name, kind in kinds.items()]
    sparse = member("cat/sparse.jpg", data=IMAGE)
    sparse.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "cat/real.jpg"}
    members += [(sparse, IMAGE), (member("cat/1.jpg", data=IMAGE), IMAGE)]
    found = scan(write(path, members, tarfile.PAX_FORMAT))
    assert list(items(found)) == ["cat/1.jpg"]
    assert reasons(found) == {f"cat/{name}": "not_a_regular_file" for name in kinds} | {
        "cat/real.jpg": "unsupported_format"
    }


def test_splits_and_a_common_folder_are_found(path: Path) -> None:
    names = ["imagenet/train/a/1.jpg", "imagenet/val/a/1.jpg", "imagenet/train/b/2.jpg"]
    path.write_bytes(tar_bytes([(name, IMAGE) for name in names]))
    found = scan(path)
    assert {(item.key, item.split, item.class_name) for item in items(found).values()} == {
        ("train/a/1.jpg", "train", "a"),
        ("val/a/1.jpg", "val", "a"),
        ("train/b/2.jpg", "train", "b"),
    }
    assert any("imagenet" in text for text in notices(found))


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        (["pets/cat/1.jpg", "pets/dog/1.jpg"], {"cat", "dog"}),
        (["a/b/cat/1.jpg", "a/b/dog/1.jpg"], {"cat", "dog"}),
        (["cat/deep/1.jpg"], {"cat"}),
        (["cat/1.jpg", "cat/deep/1.jpg"], {"cat"}),
        (["cat/a/1.jpg", "dog/a/1.jpg"], {"cat", "dog"}),
    ],
)
def test_a_common_folder_is_skipped_only_if_safe(path: Path, names: list[str], classes: set[str]) -> None:
    path.write_bytes(tar_bytes([(name, IMAGE) for name in names]))
    assert {item.class_name for item in items(scan(path)).values()} == classes


@pytest.mark.parametrize(
    "names",
    [
        ["pets/cat/x/1.jpg", "pets/dog/1.jpg"],
        ["train/a/1.jpg", "more/a/1.jpg"],
        ["val/a/1.jpg", "test/a/1.jpg"],
        ["val/a/1.jpg", "valid/a/1.jpg", "train/a/1.jpg"],
        ["set/train/a/1.jpg", "set/val/a/1.jpg", "docs/a/1.jpg"],
    ],
)
def test_what_can_be_read_in_two_ways_is_asked_for(path: Path, names: list[str]) -> None:
    path.write_bytes(tar_bytes([(name, IMAGE) for name in names]))
    with pytest.raises(DataprepError, match="is ambiguous"):
        scan(path)


def test_tars_named_after_splits_are_splits(tmp_path: Path) -> None:
    (tmp_path / "sets").mkdir()
    for name in ("train-000", "train-001", "val-000"):
        members = [(f"cat/{name[-1]}.jpg", IMAGE), ("dog/" + name[-1] + ".jpg", IMAGE)]
        (tmp_path / "sets" / f"{name}.tar").write_bytes(tar_bytes(members))
    found = items(scan(tmp_path / "sets"))
    assert found["train/cat/1.jpg"].split == "train"
    assert found["val/dog/0.jpg"].split == "val"
    assert len(found) == 6


def test_a_folder_of_class_tars_is_read_as_tars(tmp_path: Path) -> None:
    (tmp_path / "sets").mkdir()
    for name in ("cat", "dog"):
        (tmp_path / "sets" / f"{name}.tar").write_bytes(tar_bytes([("1.jpg", IMAGE)]))
    assert {item.class_name for item in items(scan(tmp_path / "sets", "tars")).values()} == {"cat", "dog"}


def test_inner_tars_that_cannot_be_read_are_rejects(path: Path) -> None:
    import gzip

    inner = tar_bytes([("1.jpg", IMAGE)])
    members = [
        ("cat.tar", inner),
        ("dog.tar.gz", gzip.compress(inner)),
        ("cut.tar", tar_bytes([("2.jpg", IMAGE)])[:700]),
    ]
    path.write_bytes(tar_bytes(members))
    found = scan(path, "tars")
    assert list(items(found)) == ["cat/1.jpg"]
    assert reasons(found) == {"dog.tar.gz": "unsupported_format", "cut/2.jpg": "truncated"}


# Damage


def test_a_cut_member_is_a_reject_and_earlier_ones_are_read(path: Path) -> None:
    path.write_bytes(tar_bytes(TWO)[: 512 * 4 + 100])
    found = scan(path)
    assert list(items(found)) == ["cat/1.jpg"]
    assert reasons(found) == {"dog/2.jpg": "truncated"}
    assert len(notices(found)) == 1
    shard(path, path.parent / "out", max_rejects=Budget(1, False), max_class_loss=Budget(1, True), layout="tar")
    assert load_dataset(path.parent / "out").rejected == {"truncated": 1}


def test_a_tar_cut_in_a_header_is_reported(path: Path) -> None:
    data = tar_bytes(TWO)
    at = data.index(b"dog/2.jpg")
    path.write_bytes(data[: at + 200])
    found = scan(path)
    assert list(items(found)) == ["cat/1.jpg"]
    assert any("in a header" in text for text in notices(found))


def test_a_missing_end_marker_is_reported(path: Path) -> None:
    whole = tar_bytes([(name, IMAGE[:512]) for name, _ in TWO])
    path.write_bytes(whole)
    assert not notices(scan(path))
    path.write_bytes(whole[: 4 * 512])
    found = scan(path)
    assert len(items(found)) == 2
    assert any("end-of-archive" in text for text in notices(found))


def test_reading_continues_after_a_damaged_header(path: Path) -> None:
    data = bytearray(tar_bytes([*TWO, ("dog/3.jpg", IMAGE)]))
    at = data.index(b"dog/2.jpg")
    data[at + 3] ^= 1
    path.write_bytes(data)
    found = scan(path)
    assert sorted(items(found)) == ["cat/1.jpg", "dog/3.jpg"]
    assert reasons(found) == {f"images.tar#{at}": "corrupt"}


def test_several_tars_one_after_another_are_read(path: Path) -> None:
    path.write_bytes(tar_bytes(TWO[:1]) + tar_bytes(TWO[1:]))
    found = scan(path)
    assert len(items(found)) == 2
    assert len(notices(found)) == 1


def test_other_data_behind_the_end_is_reported(path: Path) -> None:
    path.write_bytes(tar_bytes(TWO) + b"x" * 700)
    found = scan(path)
    assert len(items(found)) == 2
    assert len(notices(found)) == 1


@pytest.mark.parametrize("data", [b"", b"no tar" * 200, b"short"])
def test_a_file_that_is_no_tar_is_one_sentence(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(DataRejected, match="holds no tar"):
        scan(path)


def test_an_empty_tar_has_no_image(path: Path) -> None:
    path.write_bytes(bytes(10240))
    with pytest.raises(DataprepError):
        shard(path, path.parent / "out")
    assert not (path.parent / "out" / "dataset.json").exists()


def test_binary_sizes_and_signed_checksums_are_read(path: Path) -> None:
    data = bytearray(
        tar_bytes([("cat/caf\udce9.jpg", IMAGE)], errors="surrogateescape", encoding="utf-8", format=tarfile.GNU_FORMAT)
    )
    data[124:136] = b"\x80" + len(IMAGE).to_bytes(11, "big")
    total = sum(byte - 256 * (byte > 127) for byte in data[:148]) + 256 + sum(data[156:512])
    data[148:156] = b"%06o\0 " % total
    path.write_bytes(data)
    assert data_of(path, items(scan(path))["cat/caf%E9.jpg"]) == IMAGE


@pytest.mark.parametrize("step", range(4))
def test_damage_anywhere_is_never_a_traceback(path: Path, step: int) -> None:
    whole = tar_bytes([*TWO, ("cat/" + "x" * 120 + ".jpg", IMAGE)], format=tarfile.PAX_FORMAT)
    for at in range(step, 5000, 4 * 29):
        data = bytearray(whole)
        data[at] ^= 0xFF
        path.write_bytes(data)
        try:
            scan(path)
        except DataRejected:
            assert at < 512
        path.write_bytes(whole[:at])
        try:
            scan(path)
        except DataRejected:
            assert at < 512
