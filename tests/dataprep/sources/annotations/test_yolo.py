"""Layout yolo: data.yaml, images and label files, to the last broken line."""

import sys
from pathlib import Path
from typing import Any

import pytest

from dataprep.errors import DataprepError, DataRejected, WrongUsage
from dataprep.options import SourceOptions
from dataprep.sources import find_source
from tests.dataprep.examples import Files, picture
from tests.dataprep.sources.annotations.examples import (
    annotations,
    classes,
    details,
    items,
    notices,
    reasons,
    rules,
    scan,
    splits,
    turned,
)

YAML = b"train: images/train\nval: images/val\nnc: 3\nnames: [zebra, no, '7']\n"
TRAIN = "images/train/1.jpg"


def one(files: Files, labels: bytes, **more: bytes) -> Path:
    """A dataset of two images: the label file of the first is `labels`."""
    return files(
        {
            "data.yaml": YAML,
            TRAIN: picture(1),
            "labels/train/1.txt": labels,
            "images/val/2.jpg": picture(2),
            "labels/val/2.txt": b"0 0.5 0.5 1 1\n",
            **more,
        }
    )


def test_boxes_are_in_pixels_and_classes_in_the_order_of_names(files: Files) -> None:
    found = scan(one(files, b"\xef\xbb\xbf2 0.5 0.5 0.25 0.5\r\n\r\n1 0 0 0.5 1\n"), "yolo", "boxes")
    assert annotations(found)[TRAIN] == {
        "classes": ["7", "no"],
        "boxes": [[9, 4, 15, 12], [-6, -8, 6, 8]],
        "size": [24, 16],
    }
    assert classes(found) == [(name, split) for split in ("train", "val") for name in ("zebra", "no", "7")]
    assert splits(found) == {TRAIN: "train", "images/val/2.jpg": "val"}


def test_a_polygon_is_a_segment_and_its_bounding_box(files: Files) -> None:
    root = one(files, b"0 0 0 0.5 0 0.5 0.5 0.25 1\n")
    (root / "labels/val/2.txt").write_text("")
    assert annotations(scan(root, "yolo", "boxes"))[TRAIN]["boxes"] == [[0, 0, 12, 16]]
    assert annotations(scan(root, "yolo", "mask")) == {
        TRAIN: {
            "classes": ["zebra"],
            "segments": [{"class": "zebra", "polygons": [[0, 0, 12, 0, 12, 8, 6, 16]]}],
            "size": [24, 16],
        },
        "images/val/2.jpg": {"classes": [], "segments": []},
    }


def test_a_box_is_no_mask(files: Files) -> None:
    found = scan(one(files, b"0 0 0 0.5 0 0.5 0.5\n\n0 0.5 0.5 1 1\n"), "yolo", "mask")
    assert reasons(found) == {TRAIN: "invalid_annotation", "images/val/2.jpg": "invalid_annotation"}
    assert "labels/train/1.txt, line 3" in details(found)[TRAIN]


def test_classes_are_the_distinct_ones(files: Files) -> None:
    found = scan(one(files, b"1 0.5 0.5 1 1\n0 0.5 0.5 1 1\n1 0.5 0.5 1 1\n"), "yolo", "classes")
    assert annotations(found)[TRAIN] == {"classes": ["zebra", "no"]}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"3 0.5 0.5 1 1", "unknown_class"),
        (b"0 0.5 0.5 1", "invalid_annotation"),
        (b"0 0.5 0.5 1 1 0.9", "invalid_annotation"),
        (b"0 0 0 1 1 0 1 1", "invalid_annotation"),
        (b"0 0.5 0.5 1 1.01", "invalid_annotation"),
        (b"0 -0.1 0.5 1 1", "invalid_annotation"),
        (b"0 nan 0.5 1 1", "invalid_annotation"),
        (b"0 0.5 0,5 1 1", "invalid_annotation"),
        (b"-1 0.5 0.5 1 1", "invalid_annotation"),
        (b"0.5 0.5 0.5 1 1", "invalid_annotation"),
        (b"inf 0.5 0.5 1 1", "invalid_annotation"),
        (b"cat 0.5 0.5 1 1", "invalid_annotation"),
    ],
)
def test_a_malformed_line_rejects_its_image(files: Files, line: bytes, reason: str) -> None:
    found = scan(one(files, b"0 0.5 0.5 1 1.00001\n" + line), "yolo", "boxes")
    assert reasons(found) == {TRAIN: reason}
    assert "labels/train/1.txt, line 2" in details(found)[TRAIN]


def test_labels_that_are_not_text_reject_their_image(files: Files) -> None:
    assert reasons(scan(one(files, b"\xff\xfe\0"), "yolo", "boxes")) == {TRAIN: "invalid_annotation"}


def test_an_image_without_labels_has_no_objects_and_is_counted(files: Files) -> None:
    root = one(files, b"")
    (root / "labels/train/1.txt").unlink()
    (root / "labels/val/9.txt").write_text("")
    (root / "labels/val/classes.txt").write_text("")
    found = scan(root, "yolo", "boxes")
    assert annotations(found)[TRAIN] == {"classes": [], "boxes": []}
    assert f"1 image is without a label file, so without objects; the first is '{TRAIN}'" in notices(found)
    assert "1 label file is of no image, and ignored; the first is 'labels/val/9.txt'" in notices(found)


def test_images_without_any_labels_are_one_sentence(files: Files) -> None:
    root = files({"data.yaml": YAML, TRAIN: picture(1), "images/val/2.jpg": picture(2)})
    with pytest.raises(DataRejected, match=r"labels/train/1\.txt"):
        scan(root, "yolo", "boxes")


def test_an_image_without_a_readable_header_is_a_reject(files: Files) -> None:
    root = one(files, b"0 0.5 0.5 1 1")
    (root / TRAIN).write_bytes(b"GIF89")
    (root / "images/val/2.jpg").write_bytes(b"hello")
    assert reasons(scan(root, "yolo", "boxes")) == {TRAIN: "truncated", "images/val/2.jpg": "not_an_image"}


def test_labels_are_of_the_upright_image(files: Files) -> None:
    root = one(files, b"0 0.5 0.25 1 0.5\n")
    (root / TRAIN).write_bytes(turned(6, (24, 16)))
    annotation = annotations(scan(root, "yolo", "boxes"))[TRAIN]
    assert (annotation["size"], annotation["boxes"]) == ([16, 24], [[0, 0, 16, 12]])


@pytest.mark.parametrize(
    "names",
    ["names:\n  0: zebra\n  1: no\n  2: '7'\n", "names:\n- zebra\n- no\n- '7'\n", "names: {2: '7', 0: zebra, 1: no}\n"],
)
def test_names_are_a_list_or_numbered(files: Files, names: str) -> None:
    root = one(files, b"1 0.5 0.5 1 1\n")
    (root / "data.yaml").write_text(f"# comment\npath: /no/such/folder\ntrain: images/train\nval: images/val\n{names}")
    found = scan(root, "yolo", "classes")
    assert annotations(found)[TRAIN] == {"classes": ["no"]}
    assert [name for name, split in classes(found) if split == "train"] == ["zebra", "no", "7"]


@pytest.mark.parametrize(
    "train",
    ["./images/train", "../images/train", "train.txt", "[images/train]", "lists/train.txt", "images/train/", "{}"],
)
def test_paths_are_folders_lists_or_text_files(files: Files, train: str) -> None:
    root = one(files, b"1 0.5 0.5 1 1\n")
    (root / "data.yaml").write_text(f"train: {train.format(root / 'images/train')}\nval: images/val\nnames: [a, b]\n")
    (root / "train.txt").write_text("./images/train/1.jpg\n")
    (root / "lists").mkdir()
    (root / "lists" / "train.txt").write_text(f"{TRAIN}\n{root / TRAIN}\n")
    found = scan(root, "yolo", "classes")
    assert splits(found) == {TRAIN: "train", "images/val/2.jpg": "val"}
    assert not reasons(found)


def test_what_a_list_and_its_folder_do_not_share(files: Files) -> None:
    root = one(files, b"")
    (root / "images/train/3.jpg").write_bytes(picture(3))
    (root / "train.txt").write_text(f"{TRAIN}\nimages/train/4.jpg\n/elsewhere/5.jpg\nimages/val/2.jpg\n")
    (root / "data.yaml").write_text("train: train.txt\nval: images/val\nnames: [a, b]\n")
    found = scan(root, "yolo", "classes")
    assert list(items(found)) == [TRAIN]
    assert reasons(found) == {
        "images/train/4.jpg": "missing_file",
        "/elsewhere/5.jpg": "outside_source",
        "images/val/2.jpg": "duplicate_annotation",
    }
    assert rules(found) == {"images/train/3.jpg": "not in the annotations"}
    assert "1 image is in no split of data.yaml" in notices(found)


def test_the_yaml_is_a_source_and_path_names_the_folder(files: Files, tmp_path: Path) -> None:
    root = one(files, b"1 0.5 0.5 1 1\n")
    yaml = tmp_path / "config" / "mine.yml"
    yaml.parent.mkdir()
    yaml.write_text("path: ../raw\ntrain: images/train\nval: images/val\nnames: [a, b]\n")
    assert items(scan(yaml, "yolo", "classes"))[TRAIN].place == str(root / TRAIN)
    yaml.write_text("train: images/train\nval: images/val\nnames: [a, b]\n")
    with pytest.raises(DataRejected, match="--root"):
        scan(yaml, "yolo", "classes")
    assert items(scan(yaml, "yolo", "classes", root=root))[TRAIN].place == str(root / TRAIN)


def test_the_place_of_an_image_beside_its_yaml_is_its_key(files: Files) -> None:
    root = one(files, b"")
    assert items(scan(root / "data.yaml", "yolo", "classes"))[TRAIN].place is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"train: [", "not valid YAML"),
        (b"\xff\xfe\xfd", "not valid YAML"),
        (b"", "no keys"),
        (b"- a", "no keys"),
        (b"names: [a]", "no path under 'train'"),
        (b"train: {a: b}\nnames: [a]", "'train' must be"),
        (b"train: [[a]]\nnames: [a]", "more levels"),
        (b"val: a\nvalid: b\nnames: [a]", "'valid' must be"),
        (b"train: images", "'names' must be"),
        (b"train: images\nnames: a", "'names' must be"),
        (b"train: images\nnames: {a: b}", "'names' must have"),
        (b"train: images\nnames: ['']", "'names' must have"),
        (b"train: images\nnames: {0: a, 0: b}", "stands twice"),
        (b"train: images\nnc: 2\nnames: [a]", "nc is '2'"),
        (b"train: images\nnames: [a]\npath: [a]", "'path' must be"),
        (b"train: no/such/folder\nnames: [a]", "--root"),
        (b"train: images/train\nval: images/train\nnames: [a]", "is both of train and of val"),
        (b"train: data.yaml\nnames: [a]", "neither a folder nor a list"),
        (b"a: &a [x]\nb: &b [*a, *a]\ntrain: *b\nnames: [a]", "more levels"),
        (b"train: &a [*a]\nnames: [a]", "more levels"),
    ],
)
def test_a_yaml_that_is_no_dataset_is_one_sentence(files: Files, text: bytes, says: str) -> None:
    root = one(files, b"")
    (root / "data.yaml").write_bytes(text)
    options = SourceOptions(needs="boxes", annotations=root / "data.yaml")
    with pytest.raises(DataRejected, match=says):
        list(find_source("yolo").scan(root, options))


def test_a_folder_without_a_yaml_is_one_sentence(files: Files) -> None:
    root = files({TRAIN: picture(1)})
    with pytest.raises(WrongUsage, match="--annotations"):
        list(find_source("yolo").scan(root, SourceOptions(needs="boxes")))


def test_without_the_package_a_sentence_names_the_command(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(DataprepError, match=r"pip install 'mindspore-dataprep\[yaml\]'"):
        scan(one(files, b""), "yolo", "boxes")


def test_keypoints_after_a_box_are_not_read(files: Files) -> None:
    root = one(files, b"0 0.5 0.5 1 1 0.1 0.2 2 0.3 0.4 2\n")
    (root / "data.yaml").write_bytes(YAML + b"kpt_shape: [2, 3]\n")
    assert annotations(scan(root, "yolo", "boxes"))[TRAIN]["boxes"] == [[0, 0, 24, 16]]


def test_rows_that_need_nothing_need_no_labels(files: Files) -> None:
    found: dict[str, Any] = annotations(scan(one(files, b"broken"), "yolo", None))
    assert found == {TRAIN: None, "images/val/2.jpg": None}


def test_a_class_that_ignore_matches_is_left_out_and_counted(files: Files) -> None:
    found = scan(one(files, b"1 0.5 0.5 1 1\n0 0.5 0.5 1 1\n"), "yolo", "boxes", ignore=("zebra",))
    assert annotations(found)[TRAIN]["classes"] == ["no"]
    assert [name for name, split in classes(found) if split == "train"] == ["no", "7"]
    assert "2 objects of the class 'zebra' are ignored by --ignore" in notices(found)
