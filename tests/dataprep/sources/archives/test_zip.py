"""Zip directories of every kind, names, and damage."""

import io
import stat
import struct
import zipfile
from pathlib import Path

import pytest

from dataprep.build.read_ahead import read_item, wanted_item
from dataprep.errors import DataRejected
from dataprep.items import Item
from dataprep.options import Budget
from dataprep.plan.store import PlannedItem
from schemas.dataset import load_dataset
from schemas.images.policy import ImageRejected
from tests.dataprep.examples import picture, shard
from tests.dataprep.sources.archives.packing import items, reasons, rules, scan

IMAGE = picture(1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "images.zip"


def data_of(root: Path, item: Item) -> bytes:
    wanted = wanted_item(str(root.parent), PlannedItem(item.key, 0, item.size, item.mtime_ns, item.place), 1 << 30)
    return read_item(wanted.path, wanted.item, wanted.max_bytes)


def zip_bytes(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as made:
        for name, data in members.items():
            made.writestr(name, data)
    return buffer.getvalue()


TWO = {"cat/1.jpg": IMAGE, "dog/2.jpg": picture(2)}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_are_read_with_their_checksum(path: Path, method: int) -> None:
    path.write_bytes(zip_bytes(TWO, method))
    found = items(scan(path, "zip"))
    assert {key: data_of(path, item) for key, item in found.items()} == TWO


def test_utf8_names_are_read_with_and_without_the_mark_and_others_as_cp437(path: Path) -> None:
    data = zip_bytes({"cat/é.jpg": IMAGE, "dog/x1x.jpg": IMAGE, "dog/y2y2.jpg": IMAGE})
    data = data.replace(b"x1x", "xéx".encode("cp437")).replace(b"y2y2", "yéy".encode())
    path.write_bytes(data)
    assert sorted(items(scan(path, "zip"))) == sorted(["cat/é.jpg", "dog/xéx.jpg", "dog/yéy.jpg"])


def test_names_are_only_names(path: Path) -> None:
    path.write_bytes(zip_bytes({"/cat/a.jpg": IMAGE, "../../cat/b.jpg": IMAGE, "dog\\c.jpg": IMAGE, "dog/": b""}))
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(b"dog\\c.jpg"))
    data[at + 5] = 0  # made on DOS
    path.write_bytes(data)
    assert sorted(items(scan(path, "zip"))) == ["cat/a.jpg", "cat/b.jpg", "dog/c.jpg"]


def test_a_zip64_is_read(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as made:
        for name, data in TWO.items():
            with made.open(name, "w", force_zip64=True) as member:
                member.write(data)
    data = bytearray(path.read_bytes())
    end = data.rindex(b"PK\x05\x06")
    _, _, _, _, entries, size, start, _ = struct.unpack_from("<4s4H2IH", data, end)
    wide = struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, entries, entries, size, start)
    wide += struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1)
    last = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    path.write_bytes(data[:end] + wide + last)
    with zipfile.ZipFile(path) as check:
        assert check.namelist() == list(TWO)
    assert {key: data_of(path, item) for key, item in items(scan(path, "zip")).items()} == TWO


def test_offsets_beyond_32_bits_are_read(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("cat/1.jpg", IMAGE)
        made.fp.seek((5 << 30) - made.fp.tell(), 1)  # type: ignore[union-attr]
        made.start_dir = made.fp.tell()  # type: ignore[attr-defined,union-attr]
        made.writestr("dog/2.jpg", picture(2))
    found = items(scan(path, "zip"))
    assert {key: data_of(path, item) for key, item in found.items()} == TWO


def test_data_before_the_zip_and_a_comment_behind_it_are_skipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as made:
        made.comment = b"x" * 3000
        for name, data in TWO.items():
            made.writestr(name, data)
    path.write_bytes(b"#!/bin/sh\n" * 9 + path.read_bytes())
    assert {key: data_of(path, item) for key, item in items(scan(path, "zip")).items()} == TWO


class Unseekable(io.RawIOBase):
    """A stream, to which zipfile writes data descriptors."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.data += bytes(data)
        return len(data)


def test_members_with_a_data_descriptor_are_read(path: Path) -> None:
    stream = Unseekable()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:  # type: ignore[arg-type]
        for name, data in TWO.items():
            made.writestr(name, data)
    assert b"PK\x07\x08" in stream.data
    path.write_bytes(stream.data)
    assert {key: data_of(path, item) for key, item in items(scan(path, "zip")).items()} == TWO


def test_encrypted_members_and_other_methods_are_rejects(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("cat/1.jpg", IMAGE)
        made.writestr("cat/2.jpg", IMAGE, zipfile.ZIP_BZIP2)
        made.writestr("cat/3.jpg", IMAGE, zipfile.ZIP_LZMA)
        made.writestr("dog/locked.jpg", IMAGE)
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(b"dog/locked.jpg"))
    data[at + 8] |= 1
    path.write_bytes(data)
    found = scan(path, "zip")
    assert list(items(found)) == ["cat/1.jpg"]
    keys = ["cat/2.jpg", "cat/3.jpg", "dog/locked.jpg"]
    assert reasons(found) == dict.fromkeys(keys, "unsupported_format")


def test_links_and_special_files_are_told_apart(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("cat/1.jpg", IMAGE)
        for name, mode, data in (
            ("dog/link.jpg", stat.S_IFLNK, b"../cat/1.jpg"),
            ("dog/gone.jpg", stat.S_IFLNK, b"nothing.jpg"),
            ("dog/fifo.jpg", stat.S_IFIFO, b""),
        ):
            info = zipfile.ZipInfo(name)
            info.external_attr = (mode | 0o644) << 16
            made.writestr(info, data)
        info = zipfile.ZipInfo("dog/packed.jpg")
        info.external_attr = (stat.S_IFLNK | 0o644) << 16
        made.writestr(info, b"../cat/1.jpg", zipfile.ZIP_DEFLATED)
    found = scan(path, "zip")
    assert sorted(items(found)) == ["cat/1.jpg", "dog/link.jpg", "dog/packed.jpg"]
    assert data_of(path, items(found)["dog/packed.jpg"]) == IMAGE
    assert reasons(found) == {"dog/gone.jpg": "dangling_link", "dog/fifo.jpg": "not_a_regular_file"}


def test_content_decides_where_the_name_does_not_say_image(path: Path) -> None:
    path.write_bytes(zip_bytes({"cat/photo": IMAGE, "cat/notes.txt": b"hello " * 99, "dog/1.jpg": IMAGE}))
    found = scan(path, "zip")
    assert sorted(items(found)) == ["cat/photo", "dog/1.jpg"]
    assert rules(found) == {"cat/notes.txt": "no image by name or content"}


# Damage


def test_a_zip_without_its_central_directory_is_one_sentence(path: Path) -> None:
    path.write_bytes(zip_bytes(TWO)[:-30])
    with pytest.raises(DataRejected, match="no central directory"):
        scan(path, "zip")


def test_a_damaged_central_directory_is_one_sentence(path: Path) -> None:
    data = bytearray(zip_bytes(TWO))
    data[data.rindex(b"PK\x01\x02")] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataRejected, match="entry 2 of 2"):
        scan(path, "zip")


def test_a_directory_with_another_number_of_entries_is_reported(path: Path) -> None:
    data = bytearray(zip_bytes(TWO))
    data[data.rindex(b"PK\x05\x06") + 10] = 3
    path.write_bytes(data)
    found = scan(path, "zip")
    assert len(items(found)) == 2
    assert list(reasons(found).values()) == ["corrupt"]


def test_more_than_65535_members_are_read(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as made:
        for number in range(66_000):
            made.writestr(f"c{number % 3}/{number}.jpg", b"x")
    assert len(items(scan(path, "zip"))) == 66_000


def test_an_entry_that_points_to_no_member_is_a_reject(path: Path) -> None:
    data = bytearray(zip_bytes(TWO))
    at = data.rindex(b"PK\x01\x02")
    data[at + 42] ^= 4
    path.write_bytes(data)
    assert reasons(scan(path, "zip")) == {"dog/2.jpg": "corrupt"}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_wrong_checksum_is_a_reject(path: Path, method: int) -> None:
    data = bytearray(zip_bytes({**TWO, "dog/3.jpg": IMAGE, "cat/4.jpg": IMAGE}, method))
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(b"dog/3.jpg"))
    data[at + 16] ^= 1
    path.write_bytes(data)
    shard(path, path.parent / "out", max_rejects=Budget(1, False), max_class_loss=Budget(1, True))
    assert load_dataset(path.parent / "out").rejected == {"corrupt": 1}


def test_a_member_larger_than_announced_is_not_inflated(path: Path) -> None:
    data = bytearray(zip_bytes({"cat/1.jpg": bytes(50 << 20), "dog/2.jpg": IMAGE}))
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(b"cat/1.jpg"))
    data[at + 24 : at + 28] = (1000).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(ImageRejected) as refused:
        data_of(path, items(scan(path, "zip"))["cat/1.jpg"])
    assert refused.value.reason == "corrupt"


def test_damage_anywhere_is_never_a_traceback(path: Path) -> None:
    whole = zip_bytes(TWO)
    for at in range(0, len(whole), 5):
        data = bytearray(whole)
        data[at] ^= 0xFF
        for content in (data, whole[:at]):
            path.write_bytes(content)
            try:
                found = items(scan(path, "zip"))
            except DataRejected:
                continue
            for item in found.values():
                try:
                    data_of(path, item)
                except ImageRejected:
                    continue
