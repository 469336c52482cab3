import os
import socket
from pathlib import Path

import pytest

from dataprep.errors import DataprepError
from dataprep.item import Folder, Found, Ignored, Item, Reject
from dataprep.sources import SOURCES, detect_layout
from dataprep.sources.walk import WalkOptions
from tests.dataprep.conftest import Files, picture

PLAIN = WalkOptions()


def scan(root: Path, layout: str = "classes", options: WalkOptions = PLAIN) -> list[Found]:
    return list(SOURCES[layout](root, options))


def keys(found: list[Found]) -> list[str]:
    return sorted(entry.key for entry in found if isinstance(entry, Item))


def rules(found: list[Found]) -> dict[str, str]:
    return {entry.key: entry.rule for entry in found if isinstance(entry, Ignored)}


def reasons(found: list[Found]) -> dict[str, str]:
    return {entry.key: entry.reason for entry in found if isinstance(entry, Reject)}


def test_class_folders_are_read_to_any_depth_with_any_extension(files: Files) -> None:
    names = ["cat/1.JPG", "cat/deep/er/2.jpeg", "dog/3.jfif", "dog/name without extension"]
    found = scan(files(dict.fromkeys(names, picture(0))))
    assert keys(found) == sorted(names)
    assert {entry.class_name for entry in found if isinstance(entry, Folder)} == {"cat", "dog"}
    assert all(entry.split is None for entry in found if isinstance(entry, Item))


def test_split_folders_give_split_and_class(files: Files) -> None:
    root = files({"train/a/1.jpg": b"x", "validation/a/2.jpg": b"x", "Test/b/3.jpg": b"x"})
    assert detect_layout(root, PLAIN) == "splits"
    found = {(e.split, e.class_name, e.key) for e in scan(root, "splits") if isinstance(e, Item)}
    assert found == {("train", "a", "train/a/1.jpg"), ("val", "a", "validation/a/2.jpg"), ("test", "b", "Test/b/3.jpg")}


def test_two_folders_for_one_split_are_refused(files: Files) -> None:
    root = files({"train/a/1.jpg": b"x", "val/a/2.jpg": b"x", "valid/a/3.jpg": b"x"})
    with pytest.raises(DataprepError, match="both 'val' and 'valid'"):
        scan(root, "splits")


@pytest.mark.parametrize(
    ("names", "layout"),
    [
        (["train/a/1.jpg", "val/a/1.jpg"], "splits"),
        (["train/a/1.jpg", ".git/x", "__MACOSX/train/x"], "splits"),
        (["train/1.jpg", "bus/1.jpg"], "classes"),
        (["val/1.jpg", "test/1.jpg"], "classes"),
    ],
)
def test_layout_is_detected_from_the_folders(files: Files, names: list[str], layout: str) -> None:
    assert detect_layout(files(dict.fromkeys(names, b"x")), PLAIN) == layout


def test_a_source_without_folders_is_refused(files: Files) -> None:
    with pytest.raises(DataprepError, match="has no folder, but 2 files of its own: give the folder above it"):
        detect_layout(files({"1.jpg": b"x", "2.jpg": b"x"}), PLAIN)


def test_an_empty_source_is_refused(files: Files, tmp_path: Path) -> None:
    with pytest.raises(DataprepError, match="has no folder; expected"):
        detect_layout(tmp_path, PLAIN)


def test_junk_is_ignored_by_rule(files: Files) -> None:
    root = files(
        dict.fromkeys(
            ["a/1.jpg", "a/.DS_Store", "a/Thumbs.db", "a/desktop.ini", "a/._1.jpg", "__MACOSX/a/1.jpg", ".git/1.jpg",
             "a/.ipynb_checkpoints/1.jpg", "readme.txt"],
            picture(0),
        )
    )  # fmt: skip
    found = scan(root)
    assert keys(found) == ["a/1.jpg"]
    assert rules(found) == {
        "a/.DS_Store": "hidden",
        "a/Thumbs.db": "thumbs.db",
        "a/desktop.ini": "desktop.ini",
        "a/._1.jpg": "appledouble",
        "__MACOSX": "__macosx",
        ".git": "hidden",
        "a/.ipynb_checkpoints": "hidden",
        "readme.txt": "not in a class folder",
    }


def test_content_decides_where_the_name_does_not_say_image(files: Files) -> None:
    found = scan(files({"a/notes.txt": b"hello", "a/photo.txt": picture(0), "a/text.jpg": b"hello"}))
    assert keys(found) == ["a/photo.txt", "a/text.jpg"]
    assert rules(found) == {"a/notes.txt": "no image by name or content"}


def test_ignore_patterns_match_names_and_keys(files: Files) -> None:
    root = files(dict.fromkeys(["a/1.jpg", "a/1_thumb.jpg", "b/1.jpg", "c/x/1.jpg"], picture(0)))
    found = scan(root, options=WalkOptions(("*_thumb.jpg", "b", "c/x*")))
    assert keys(found) == ["a/1.jpg"]
    assert set(rules(found).values()) == {"--ignore *_thumb.jpg", "--ignore b", "--ignore c/x*"}


def test_special_files_are_rejected_and_never_opened(files: Files) -> None:
    root = files({"a/1.jpg": picture(0)})
    os.mkfifo(root / "a" / "pipe.jpg")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(root / "a" / "socket.jpg"))
        os.symlink("/dev/zero", root / "a" / "zero.jpg")
        os.symlink("nowhere.jpg", root / "a" / "dangling.jpg")
        assert reasons(scan(root)) == {
            "a/pipe.jpg": "not_a_regular_file",
            "a/socket.jpg": "not_a_regular_file",
            "a/zero.jpg": "not_a_regular_file",
            "a/dangling.jpg": "dangling_link",
        }


def test_links_to_files_are_followed_and_to_folders_only_on_demand(files: Files, tmp_path: Path) -> None:
    root = files({"a/1.jpg": picture(0)})
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "2.jpg").write_bytes(picture(1))
    os.symlink(tmp_path / "store" / "2.jpg", root / "a" / "linked.jpg")
    os.symlink(tmp_path / "store", root / "a" / "folder")
    found = scan(root)
    assert keys(found) == ["a/1.jpg", "a/linked.jpg"]
    assert rules(found) == {"a/folder": "link to a folder"}
    assert keys(scan(root, options=WalkOptions(follow_links=True))) == ["a/1.jpg", "a/folder/2.jpg", "a/linked.jpg"]


def test_a_loop_of_links_is_found(files: Files) -> None:
    root = files({"a/deep/1.jpg": picture(0)})
    os.symlink("..", root / "a" / "deep" / "up")
    found = scan(root, options=WalkOptions(follow_links=True))
    assert keys(found) == ["a/deep/1.jpg"]
    assert reasons(found) == {"a/deep/up": "link_loop"}


def test_names_that_are_not_utf8_have_keys(files: Files) -> None:
    root = files({"a/1.jpg": picture(0)})
    with open(os.fsencode(root) + b'/a/\xff\n\t".jpg', "wb") as file:
        file.write(picture(1))
    assert keys(scan(root)) == ['a/%FF\n\t".jpg', "a/1.jpg"]
