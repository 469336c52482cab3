import errno
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from dataprep.errors import DataprepError
from dataprep.items import ClosedFolder, FoundClass, Ignored, Item, Notice, Reject, ScanEntry, size_and_time
from dataprep.options import SourceOptions
from dataprep.sources import find_source
from dataprep.sources.detect import detect_layout
from dataprep.sources.walk import status_ahead
from tests.dataprep.examples import ClosedScandir, Files, picture

PLAIN = SourceOptions()


def scan(root: Path, layout: str = "classes", options: SourceOptions = PLAIN) -> list[ScanEntry]:
    return list(find_source(layout).scan(root, options))


def keys(found: list[ScanEntry]) -> list[str]:
    return sorted(entry.key for entry in found if isinstance(entry, Item))


def rules(found: list[ScanEntry]) -> dict[str, str]:
    return {entry.key: entry.rule for entry in found if isinstance(entry, Ignored)}


def reasons(found: list[ScanEntry]) -> dict[str, str]:
    return {entry.key: entry.reason for entry in found if isinstance(entry, Reject)}


def test_class_folders_are_read_to_any_depth_with_any_extension(files: Files) -> None:
    names = ["cat/1.JPG", "cat/deep/er/2.jpeg", "dog/3.jfif", "dog/name without extension"]
    found = scan(files(dict.fromkeys(names, picture(0))))
    assert keys(found) == sorted(names)
    assert {entry.class_name for entry in found if isinstance(entry, FoundClass)} == {"cat", "dog"}
    assert all(entry.split is None for entry in found if isinstance(entry, Item))


def test_split_folders_give_split_and_class(files: Files) -> None:
    root = files({"train/a/1.jpg": b"x", "validation/a/2.jpg": b"x", "Test/b/3.jpg": b"x"})
    assert detect_layout(root, PLAIN) == "splits"
    found = {(e.split, e.class_name, e.key) for e in scan(root, "splits") if isinstance(e, Item)}
    assert found == {("train", "a", "train/a/1.jpg"), ("val", "a", "validation/a/2.jpg"), ("test", "b", "Test/b/3.jpg")}


def test_two_folders_for_one_split_are_rejected(files: Files) -> None:
    root = files({"train/a/1.jpg": b"x", "val/a/2.jpg": b"x", "valid/a/3.jpg": b"x"})
    with pytest.raises(DataprepError, match="both 'val' and 'valid'"):
        scan(root, "splits")


@pytest.mark.parametrize(
    ("names", "layout"),
    [
        (["train/a/1.jpg", "val/a/1.jpg"], "splits"),
        (["train/a/1.jpg", ".git/x", "__MACOSX/train/x"], "splits"),
        (["Training/a/1.jpg", "Testing/a/1.jpg"], "splits"),
        (["train/a/1.jpg", "dev/a/1.jpg"], "splits"),
        (["train/a/1.jpg", "eval/a/1.jpg", "test/a/1.jpg"], "splits"),
        (["training_set/a/1.jpg", "test_set/a/1.jpg"], "splits"),
        (["Train Data/a/1.jpg", "Validation Data/a/1.jpg"], "splits"),
        (["seg_train/a/1.jpg", "seg_test/a/1.jpg"], "splits"),
        (["train2017/a/1.jpg", "val2017/a/1.jpg"], "splits"),
        (["train/a/1.jpg", "val/a/1.jpg", "lost+found/x", "@eaDir/train/1.jpg"], "splits"),
        (["训练集/a/1.jpg", "测试集/a/1.jpg"], "splits"),
        (["trainset2/a/1.jpg", "testset2/a/1.jpg"], "splits"),
        (["1_train/a/1.jpg", "2_val/a/1.jpg", "3. test/a/1.jpg"], "splits"),
        (["trainA/a/1.jpg", "testA/a/1.jpg"], "splits"),
        (["Train_set/a/1.jpg", "Test_set/a/1.jpg"], "splits"),
        (["tr/1.jpg", "te/1.jpg"], "classes"),
        (["tr/a/1.jpg", "te/b/1.jpg", "en/a/1.jpg"], "classes"),
        (["fold1/1.jpg", "fold2/1.jpg"], "classes"),
        (["fold1/a/1.jpg", "napkin/a/1.jpg"], "classes"),
        (["boxing/left/1.jpg", "boxing/right/1.jpg", "running/left/1.jpg", "running/right/1.jpg"], "classes"),
        (["trains/a/1.jpg", "tests/a/1.jpg"], "classes"),
        (["1_cat/1.jpg", "2_test/1.jpg"], "classes"),
        (["cat/1.jpg", "test/1.jpg"], "classes"),
        (["cat/one/1.jpg"], "classes"),
        (["cat/one/1.jpg", "cat/two/2.jpg", "dog/1.jpg"], "classes"),
        (["train_station/1.jpg", "bus_station/1.jpg"], "classes"),
        (["vehicles/train/1.jpg", "vehicles/bus/1.jpg", "birds/1.jpg"], "classes"),
    ],
)
def test_layout_is_detected_from_the_folders(files: Files, names: list[str], layout: str) -> None:
    assert detect_layout(files(dict.fromkeys(names, b"x")), PLAIN) == layout


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["train/a/1.jpg", "val/a/1.jpg", "chest_xray/train/1.jpg"], "--layout splits --ignore /chest_xray/. If all 3"),
        (["train/a/1.jpg", "annotations/1.xml"], "--layout splits --ignore /annotations/. If all 2"),
        (["train/a/1.jpg", "odd [1] name/1.jpg"], r"--ignore '/odd \[1] name/'"),
        (["Train/1.jpg", "bus/1.jpg"], "--ignore /bus/. If all 2 folders are classes: --layout classes"),
        (["val/a/1.jpg", "test/a/1.jpg"], "none of them is train"),
        (["set/train/a/1.jpg", "set/val/a/1.jpg"], "raw/set. If 'set' is a class: --layout classes"),
        (["pets/cat/1.jpg", "pets/dog/1.jpg"], "raw/pets. If 'pets' is a class: --layout classes"),
        (["tr/a/1.jpg", "te/a/1.jpg"], "splits: --layout splits. If 'te', 'tr' are the classes: --layout classes"),
        (["my_train/a/1.jpg", "their_test/a/1.jpg"], "If they are splits: --layout splits"),
        (["fold1/a/1.jpg", "fold2/a/1.jpg"], "raw/fold1, or move them so that SOURCE has the folders train and val"),
        (["part A/a/1.jpg", "part B/a/1.jpg"], "'part A', 'part B' are the classes: --layout classes"),
        (["trainA/1.jpg", "trainB/1.jpg", "testA/1.jpg", "testB/1.jpg"], "--ignore /testB/ --ignore /trainB/. If"),
        (["train/a/1.jpg", "val/a/1.jpg", "valid/a/1.jpg"], "--layout splits --ignore /valid/. If all 3"),
        (["cat/train/1.jpg", "cat/val/1.jpg", "dog/train/1.jpg", "dog/val/1.jpg"], "'cat' contains 'train', 'val'"),
    ],
)
def test_ambiguous_folders_are_an_error_that_shows_both_options(files: Files, names: list[str], says: str) -> None:
    root = files(dict.fromkeys(names, b"x"))
    with pytest.raises(DataprepError) as refused:
        detect_layout(root, PLAIN)
    assert "is ambiguous" in str(refused.value)
    assert says in str(refused.value)
    assert detect_layout(root, PLAIN, "classes") == "classes"


def test_short_split_names_are_accepted_with_layout_splits(files: Files) -> None:
    root = files(dict.fromkeys(["tr/a/1.jpg", "te/a/2.jpg"], b"x"))
    assert detect_layout(root, PLAIN, "splits") == "splits"
    found = {(entry.split, entry.class_name, entry.key) for entry in scan(root, "splits") if isinstance(entry, Item)}
    assert found == {("train", "a", "tr/a/1.jpg"), ("test", "a", "te/a/2.jpg")}


def test_recommended_pattern_excludes_the_folder(files: Files) -> None:
    root = files(dict.fromkeys(["train/odd [1] name/1.jpg", "odd [1] name/1.jpg"], b"x"))
    options = SourceOptions((r"/odd \[1] name/",))
    assert detect_layout(root, options) == "splits"
    assert keys(scan(root, "splits", options)) == ["train/odd [1] name/1.jpg"]


def test_folder_next_to_the_splits_is_ignored_with_a_notice(files: Files) -> None:
    found = scan(files(dict.fromkeys(["train/a/1.jpg", "more/a/1.jpg", "notes.txt"], b"x")), "splits")
    assert keys(found) == ["train/a/1.jpg"]
    assert [entry.text for entry in found if isinstance(entry, Notice)] == [
        "the folder 'more' is ignored, because its name is not that of a split"
    ]


def test_images_outside_of_class_folders_are_ignored_with_a_notice(files: Files) -> None:
    found = scan(files(dict.fromkeys(["a/1.jpg", "2.jpg", "3.PNG", "notes.txt"], b"x")))
    assert [entry.text for entry in found if isinstance(entry, Notice)] == [
        "ignored 2 images directly in SOURCE, outside any class folder; the first is '2.jpg'"
    ]


def test_source_without_folders_is_rejected(files: Files) -> None:
    with pytest.raises(DataprepError, match="has no folder, only 2 files: use the folder above it"):
        detect_layout(files({"1.jpg": b"x", "2.jpg": b"x"}), PLAIN)


def test_empty_source_is_rejected(files: Files, tmp_path: Path) -> None:
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


def test_content_decides_if_the_name_has_no_image_suffix(files: Files) -> None:
    found = scan(files({"a/notes.txt": b"hello", "a/photo.txt": picture(0), "a/text.jpg": b"hello"}))
    assert keys(found) == ["a/photo.txt", "a/text.jpg"]
    assert rules(found) == {"a/notes.txt": "no image by name or content"}


def test_system_folders_are_ignored_at_any_depth_but_files_of_the_same_name_are_not(files: Files) -> None:
    folders = ["@eaDir", "#recycle", "#snapshot", "$RECYCLE.BIN", "System Volume Information", "lost+found"]
    folders += ["FOUND.000"]
    names = [f"{folder}/1.jpg" for folder in folders] + [f"a/{folder}/1.jpg" for folder in folders]
    root = files(dict.fromkeys(["a/1.jpg", "b/lost+found", "b/2.jpg.part", *names], picture(0)))
    found = scan(root)
    assert keys(found) == ["a/1.jpg", "b/lost+found"]
    assert rules(found) == {
        **{folder: "system folder" if folder == "FOUND.000" else folder.lower() for folder in folders},
        **{f"a/{folder}": "system folder" if folder == "FOUND.000" else folder.lower() for folder in folders},
        "b/2.jpg.part": "unfinished download",
    }


def test_ignore_patterns_match_names_and_keys(files: Files) -> None:
    root = files(dict.fromkeys(["a/1.jpg", "a/1_thumb.jpg", "b/1.jpg", "c/x/1.jpg"], picture(0)))
    found = scan(root, options=SourceOptions(("*_thumb.jpg", "b", "c/x*")))
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
    assert keys(scan(root, options=SourceOptions(follow_links=True))) == ["a/1.jpg", "a/folder/2.jpg", "a/linked.jpg"]


def test_loop_of_links_is_rejected(files: Files) -> None:
    root = files({"a/deep/1.jpg": picture(0)})
    os.symlink("..", root / "a" / "deep" / "up")
    found = scan(root, options=SourceOptions(follow_links=True))
    assert keys(found) == ["a/deep/1.jpg"]
    assert reasons(found) == {"a/deep/up": "link_loop"}


@pytest.mark.parametrize("layout", ["classes", "splits"])
@pytest.mark.parametrize("target", ["..", "../..", "../../.."])
def test_a_link_to_source_or_above_it_is_a_loop(files: Files, layout: str, target: str) -> None:
    inside = "train/" if layout == "splits" else ""
    root = files({f"{inside}a/1.jpg": picture(0), f"{inside}b/2.jpg": picture(1)})
    os.symlink(target, root / inside / "a" / "self")
    found = scan(root, layout, SourceOptions(follow_links=True))
    assert keys(found) == [f"{inside}a/1.jpg", f"{inside}b/2.jpg"]
    assert reasons(found) == {f"{inside}a/self": "link_loop"}


def test_class_folder_that_links_to_source_is_rejected_as_a_loop(files: Files) -> None:
    root = files({"a/1.jpg": picture(0)})
    os.symlink(".", root / "self")
    found = scan(root, options=SourceOptions(follow_links=True))
    assert [entry.class_name for entry in found if isinstance(entry, FoundClass)] == ["a"]
    assert reasons(found) == {"self": "link_loop"}


def test_a_link_to_another_class_is_followed(files: Files) -> None:
    root = files({"a/1.jpg": picture(0), "b/2.jpg": picture(1)})
    os.symlink("../b", root / "a" / "other")
    assert keys(scan(root, options=SourceOptions(follow_links=True))) == ["a/1.jpg", "a/other/2.jpg", "b/2.jpg"]


def test_each_link_that_cannot_be_followed_is_a_reject(files: Files) -> None:
    root = files({"a/1.jpg": picture(0)})
    os.symlink("circle", root / "a" / "circle")
    os.symlink("1.jpg/x", root / "a" / "through a file")
    os.symlink("x" * 300, root / "a" / "too long")
    assert reasons(scan(root)) == {
        "a/circle": "link_loop",
        "a/through a file": "dangling_link",
        "a/too long": "unreadable",
    }


@pytest.mark.parametrize("entries", [0, 1])
@pytest.mark.parametrize(("layout", "closed"), [("classes", "cat"), ("classes", "deep"), ("splits", "train")])
def test_folder_that_cannot_be_listed_is_distinguished_from_files(
    files: Files, monkeypatch: pytest.MonkeyPatch, layout: str, closed: str, entries: int
) -> None:
    split = "train/" if layout == "splits" else ""
    names = ("cat/1.jpg", "cat/deep/2.jpg", "cat/deep/3.jpg", "dog/1.jpg")
    root = files({f"{split}{name}": picture(0) for name in names})
    monkeypatch.setattr(os, "scandir", ClosedScandir({closed: errno.EACCES}, entries))
    found = [entry for entry in scan(root, layout) if isinstance(entry, ClosedFolder)]
    key = "cat/deep" if closed == "deep" else closed
    assert found == [ClosedFolder(key, errno.EACCES, "Permission denied")]


def test_names_that_are_not_utf8_have_keys(files: Files) -> None:
    root = files({"a/1.jpg": picture(0)})
    with open(os.fsencode(root) + b'/a/\xff\n\t".jpg', "wb") as file:
        file.write(picture(1))
    assert keys(scan(root)) == ['a/%FF\n\t".jpg', "a/1.jpg"]


def test_classes_one_level_too_deep_in_every_split_are_rejected(files: Files) -> None:
    names = ["train/images/a/1.jpg", "train/images/b/2.jpg", "val/images/a/3.jpg"]
    root = files(dict.fromkeys(names, b"x"))
    with pytest.raises(DataprepError, match="'train/images', the only folder in 'train', contains 'a', 'b'"):
        detect_layout(root, SourceOptions())
    assert detect_layout(root, SourceOptions(), "splits") == "splits"


def test_split_of_one_class_with_folders_and_images_is_accepted(files: Files) -> None:
    names = ["train/cat/old/1.jpg", "train/cat/2.jpg", "val/cat/3.jpg"]
    assert detect_layout(files(dict.fromkeys(names, b"x")), SourceOptions()) == "splits"


@pytest.mark.parametrize("seconds", [1 << 40, -(1 << 40)])
def test_file_time_outside_the_range_of_sqlite_is_clamped(seconds: int) -> None:
    found = os.stat_result((0o100644, 1, 1, 1, 0, 0, 7, 0, 0, 0), {"st_mtime_ns": seconds * 10**9})
    size, mtime_ns = size_and_time(found)
    assert (size, abs(mtime_ns), mtime_ns > 0) == (7, (1 << 63) - 1, seconds > 0)


def test_several_threads_read_the_status_of_files(tmp_path: Path) -> None:
    together = threading.Barrier(4)  # passed only if four calls are made at the same time

    class SlowEntry:
        name = b"1.jpg"

        def is_dir(self, follow_symlinks: bool) -> bool:
            return False

        def is_symlink(self) -> bool:
            return False

        def stat(self, follow_symlinks: bool = True) -> None:
            together.wait(30)

    entries: Any = [SlowEntry() for _ in range(40)]
    assert list(status_ahead(entries, 4)) == entries


def test_threads_of_the_scan_change_nothing_of_its_result(files: Files) -> None:
    root = files({f"{name}/{number}.jpg": picture(number) for name in "ab" for number in range(30)})
    (root / "a" / "gone.jpg").symlink_to("nowhere")
    assert scan(root, options=SourceOptions(scan_workers=8)) == scan(root)
