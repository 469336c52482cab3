"""Which layout an archive has, and what is beside archives."""

from pathlib import Path

import pytest

from dataprep.errors import DataprepError
from dataprep.options import SourceOptions
from dataprep.sources import find_source
from dataprep.sources.detect import detect_layout
from tests.dataprep.examples import Files, picture, shard
from tests.dataprep.sources.archives.packing import compressed, items, rules, scan, tar_bytes, tar_of_tars

IMAGE = picture(1)
TAR = tar_bytes([("cat/1.jpg", IMAGE), ("dog/2.jpg", IMAGE)])
PLAIN = SourceOptions()


@pytest.mark.parametrize(
    "contents",
    [
        {"cat/1.jpg": IMAGE, "cat/backup.tar": TAR, "dog/2.jpg": IMAGE, "dog/backup.tar": TAR},
        {"cat/1.jpg": IMAGE, "backup.tar": TAR},
        {"cat/1.jpg": IMAGE, "dog/1.jpg": IMAGE},
    ],
)
def test_class_folders_with_an_archive_inside_stay_class_folders(files: Files, contents: dict[str, bytes]) -> None:
    assert detect_layout(files(contents), PLAIN) == "classes"


def test_tars_in_split_folders_are_splits(files: Files) -> None:
    root = files({"train/0.tar": TAR, "train/1.tar": tar_bytes([("cat/3.jpg", IMAGE)]), "val/0.tar": TAR})
    assert detect_layout(root, PLAIN) == "tar"
    found = items(scan(root))
    assert {key: item.split for key, item in found.items()} == {
        "train/cat/1.jpg": "train",
        "train/cat/3.jpg": "train",
        "train/dog/2.jpg": "train",
        "val/cat/1.jpg": "val",
        "val/dog/2.jpg": "val",
    }


def test_what_is_beside_the_tars_is_ignored_by_rule(files: Files) -> None:
    root = files({"0.tar": TAR, "README": b"x", ".hidden.tar": TAR, "old.tar": TAR})
    found = scan(root, options=SourceOptions(("old.tar",)))
    assert len(items(found)) == 2
    assert rules(found) == {"README": "not an archive", ".hidden.tar": "hidden", "old.tar": "--ignore old.tar"}


def test_an_archive_is_known_by_its_content_if_the_name_does_not_tell(files: Files) -> None:
    root = files({"a": TAR, "b": compressed(TAR, "gz"), "c": b"hello"})
    assert detect_layout(root / "a", PLAIN) == "tar"
    assert detect_layout(root / "b", PLAIN) == "tar"
    with pytest.raises(DataprepError, match="no known layout"):
        detect_layout(root / "c", PLAIN)


def test_images_without_a_folder_are_rows_of_unlabelled_records(files: Files, tmp_path: Path) -> None:
    root = files({"a.tar": tar_bytes([("1.jpg", IMAGE), ("x/2.jpg", picture(2))])}) / "a.tar"
    assert sorted(items(scan(root, options=SourceOptions(needs=None)))) == ["1.jpg", "x/2.jpg"]
    assert sorted(items(scan(root))) == ["x/2.jpg"]
    assert shard(root, tmp_path / "out", schema="unlabelled").written == 2


def test_a_compressed_tar_of_tars_is_read_without_unpacking_it_in_a_dry_run(raw: Path, tmp_path: Path) -> None:
    path = tar_of_tars(raw, tmp_path / "a.tar")
    packed = tmp_path / "a.tar.xz"
    packed.write_bytes(compressed(path.read_bytes(), "xz"))
    assert detect_layout(packed, PLAIN) == "tars"
    assert items(scan(packed, "tars")).keys() == items(scan(path, "tars")).keys()


def test_class_folders_and_archives_have_the_same_classes(raw: Path, tmp_path: Path) -> None:
    path = tar_of_tars(raw, tmp_path / "a.tar")
    folders = {
        (item.key, item.class_name, item.size) for item in items(list(find_source("classes").scan(raw, PLAIN))).values()
    }
    assert {(item.key, item.class_name, item.size) for item in items(scan(path, "tars")).values()} == folders
