"""Layout coco: images and their annotations from JSON files, to the last broken entry."""

import math
import os
from pathlib import Path
from typing import Any

import pytest

from dataprep.errors import DataprepError, DataRejected, WrongUsage
from dataprep.options import SourceOptions
from dataprep.sources import find_source
from tests.dataprep.examples import Files, picture
from tests.dataprep.sources.annotations.examples import (
    annotations,
    as_json,
    classes,
    details,
    items,
    notices,
    reasons,
    rules,
    scan,
    splits,
)

CATEGORIES = [{"id": 90, "name": "zebra"}, {"id": 1, "name": "person"}, {"id": 17, "name": "cat"}]


def image(number: int, **values: Any) -> dict[str, Any]:
    return {"id": number, "file_name": f"{number}.jpg", "width": 24, "height": 16, **values}


def box(number: int, of: object, category: object = 17, bbox: object = (1, 2, 3, 4), **values: Any) -> dict[str, Any]:
    return {"id": number, "image_id": of, "category_id": category, "bbox": bbox, "iscrowd": 0, **values}


def coco(images: Any, found: Any = (), categories: Any = tuple(CATEGORIES)) -> bytes:
    return as_json({"info": {}, "images": images, "annotations": found, "categories": categories})


def one(files: Files, *found: Any, **of_image: Any) -> Path:
    """A dataset of one image with these annotations."""
    return files({"annotations/instances_a.json": coco([image(1, **of_image)], found), "images/1.jpg": picture(1)})


def test_boxes_of_both_splits_in_the_order_of_category_ids(files: Files) -> None:
    root = files(
        {
            "annotations/instances_train2017.json": coco(
                [image(1), image(2)], [box(1, 1), box(2, 1, 90, [0.5, 0, 10, 5], iscrowd=1)]
            ),
            "annotations/instances_val2017.json": coco([image(3)], [box(1, 3, 1)]),
            "annotations/captions_train2017.json": coco([image(1)], []),
            "train2017/1.jpg": picture(1),
            "train2017/2.jpg": picture(2),
            "val2017/3.jpg": picture(3),
        }
    )
    found = scan(root, "coco", "boxes")
    assert splits(found) == {"train2017/1.jpg": "train", "train2017/2.jpg": "train", "val2017/3.jpg": "val"}
    assert annotations(found)["train2017/1.jpg"] == {
        "classes": ["cat", "zebra"],
        "boxes": [[1, 2, 4, 6], [0.5, 0, 10.5, 5]],
        "iscrowd": [0, 1],
        "size": [24, 16],
    }
    assert annotations(found)["train2017/2.jpg"] == {"classes": [], "boxes": [], "iscrowd": [], "size": [24, 16]}
    assert classes(found)[:3] == [("person", "train"), ("cat", "train"), ("zebra", "train")]
    assert not reasons(found)
    assert set(rules(found)) == {f"annotations/{n}.json" for n in ("instances_train2017", "instances_val2017",
                                                                   "captions_train2017")}  # fmt: skip


def test_classes_are_the_distinct_categories(files: Files) -> None:
    root = one(files, box(1, 1, 90), box(2, 1, 17), box(3, 1, 90))
    assert annotations(scan(root, "coco", "classes")) == {"images/1.jpg": {"classes": ["cat", "zebra"]}}


def test_captions_come_from_the_file_of_captions(files: Files) -> None:
    captions = [{"id": 1, "image_id": 1, "caption": "a cat"}, {"id": 2, "image_id": 1, "caption": "eine Katze ü"}]
    root = files(
        {
            "annotations/captions_train.json": as_json({"images": [image(1)], "annotations": captions}),
            "annotations/instances_train.json": coco([image(1)]),
            "images/1.jpg": picture(1),
        }
    )
    found = scan(root, "coco", "captions")
    assert annotations(found) == {"images/1.jpg": {"captions": ["a cat", "eine Katze ü"]}}
    assert splits(found) == {"images/1.jpg": None}
    assert "only one of the annotation files" in notices(found)


def test_segments_are_polygons_and_run_lengths(files: Files) -> None:
    polygon = [[0, 0, 5, 0, 5, 5.5]]
    root = one(
        files,
        box(1, 1, segmentation=polygon),
        box(2, 1, 90, segmentation={"counts": [380, 4], "size": [16, 24]}),
        box(3, 1, 90, segmentation={"counts": "Q1", "size": [16, 24]}),
    )
    assert annotations(scan(root, "coco", "mask"))["images/1.jpg"] == {
        "classes": ["cat", "zebra"],
        "segments": [
            {"class": "cat", "polygons": polygon},
            {"class": "zebra", "rle": {"counts": [380, 4], "size": [16, 24]}},
            {"class": "zebra", "rle": {"counts": "Q1", "size": [16, 24]}},
        ],
        "size": [24, 16],
    }


@pytest.mark.parametrize(
    "segmentation",
    [None, [], [[]], [[1, 2, 3, 4]], [[1, 2, 3, 4, 5]], [[1, 2, 3, 4, 5, None]], 7, {"counts": [1]},
     {"counts": [-1, 385], "size": [16, 24]}, {"counts": [384], "size": [24, 16]}, {"counts": [384], "size": [16]}],
)  # fmt: skip
def test_a_broken_segmentation_rejects_its_image(files: Files, segmentation: object) -> None:
    found = scan(one(files, box(7, 1, segmentation=segmentation)), "coco", "mask")
    assert reasons(found) == {"images/1.jpg": "invalid_annotation"}
    assert "7" in details(found)["images/1.jpg"]


@pytest.mark.parametrize(
    "bbox", [None, [1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 3, math.nan], [1, 2, 3, math.inf], [1, 2, 3, "4"], "1234",
             [1, 2, 3, True], [1, 2, 3, 10**400]]
)  # fmt: skip
def test_a_broken_box_rejects_its_image(files: Files, bbox: object) -> None:
    found = scan(one(files, box(7, 1, bbox=bbox)), "coco", "boxes")
    assert reasons(found) == {"images/1.jpg": "invalid_annotation"}
    assert "7" in details(found)["images/1.jpg"]


@pytest.mark.parametrize("category", [2, None, "cat", [1], True])
@pytest.mark.parametrize("needs", ["boxes", "classes"])
def test_an_annotation_of_no_category_rejects_its_image(files: Files, category: object, needs: str) -> None:
    found = scan(one(files, box(7, 1, category)), "coco", needs)
    assert reasons(found) == {"images/1.jpg": "unknown_class"}


@pytest.mark.parametrize("size", [{"width": 0}, {"width": -24}, {"height": "16"}, {"height": None}, {"width": 1.5}])
def test_a_broken_size_rejects_its_image(files: Files, size: dict[str, Any]) -> None:
    assert reasons(scan(one(files, **size), "coco", "boxes")) == {"images/1.jpg": "invalid_annotation"}


def test_a_file_may_leave_out_sizes(files: Files) -> None:
    found = scan(one(files, box(1, 1), width=None, height=None), "coco", "boxes")
    assert "size" not in annotations(found)["images/1.jpg"]


@pytest.mark.parametrize("caption", [None, "", " \n", 7, "\ud800"])
def test_a_broken_caption_rejects_its_image(files: Files, caption: object) -> None:
    text = as_json({"images": [image(1)], "annotations": [{"id": 7, "image_id": 1, "caption": caption}]})
    root = files({"annotations/captions_a.json": text, "images/1.jpg": picture(1)})
    assert reasons(scan(root, "coco", "captions")) == {"images/1.jpg": "invalid_annotation"}


def test_annotations_of_no_image_are_counted(files: Files) -> None:
    found = scan(one(files, box(1, 1), box(2, 5), box(3, 6)), "coco", "boxes")
    assert len(annotations(found)["images/1.jpg"]["boxes"]) == 1
    assert "2 annotations are of no image" in notices(found)
    assert "'annotations[1]'" in notices(found)


def test_repeated_annotation_ids_are_counted(files: Files) -> None:
    found = scan(one(files, box(1, 1), box(1, 1, 90)), "coco", "boxes")
    assert len(annotations(found)["images/1.jpg"]["boxes"]) == 2
    assert "1 annotation is in annotations/instances_a.json with the id of an earlier one" in notices(found)


def test_an_image_without_a_file_and_a_file_without_an_image(files: Files) -> None:
    text = coco([image(1), image(2)])
    root = files({"annotations/a.json": text, "images/1.jpg": picture(1), "images/3.jpg": picture(3)})
    found = scan(root, "coco", "boxes")
    assert list(items(found)) == ["images/1.jpg"]
    assert reasons(found) == {"images/2.jpg": "missing_file"}
    assert rules(found)["images/3.jpg"] == "not in the annotations"
    assert "1 image is in SOURCE but not in the annotations" in notices(found)


def test_images_of_one_id_or_one_file_are_rejected(files: Files) -> None:
    images = [image(1), image(1, file_name="2.jpg"), image(3), image(4, file_name="./3.jpg"), image(5)]
    root = files({"annotations/a.json": coco(images), **{f"images/{n}.jpg": picture(n) for n in (1, 2, 3, 5)}})
    found = scan(root, "coco", "boxes")
    assert list(items(found)) == ["images/5.jpg"]
    assert reasons(found) == dict.fromkeys(["images/1.jpg", "images/2.jpg", "images/3.jpg"], "duplicate_annotation")


def test_an_image_of_two_splits_is_rejected(files: Files) -> None:
    root = files({f"annotations/{name}.json": coco([image(1)]) for name in ("train", "val")} | {"1.jpg": picture(1)})
    assert reasons(scan(root, "coco", "boxes")) == {"1.jpg": "duplicate_annotation"}


@pytest.mark.parametrize("name", ["../1.jpg", "/etc/passwd", "a/../../b.jpg"])
def test_a_path_outside_of_source_is_rejected(files: Files, name: str) -> None:
    root = files({"annotations/a.json": coco([image(1), image(2, file_name=name)]), "1.jpg": picture(1)})
    assert reasons(scan(root, "coco", "boxes")) == {name: "outside_source"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'{"images": [{"id": 1, "file_na', "not complete JSON"),
        (b'{"images": ' + b"[" * 100_000, "not complete JSON"),
        (b'{"images": "\xff"}', "not complete JSON"),
        (as_json({"images": 7}), "no list 'images'"),
        (as_json({"images": [], "annotations": {}}), "no list 'annotations'"),
        (as_json({"images": [], "annotations": []}), "no list 'categories'"),
        (coco([7]), r"images\[0\]: it has no id"),
        (coco([image(1), {"id": 2}]), r"images\[1\]: it has no file_name"),
        (coco([image(1, file_name="\ud800.jpg")]), r"images\[0\]: it has no file_name"),
        (coco([image(1, file_name="a\0b")]), r"images\[0\]: it has no file_name"),
        (coco([image(1)], [7]), r"annotations\[0\]: it has no image_id"),
        (coco([image(1)], [box(1, [1])]), r"annotations\[0\]: it has no image_id"),
        (coco([image(1)], [], [{"id": 1}]), r"categories\[0\]"),
        (coco([image(1)], [], [{"id": 1, "name": "a"}, {"id": "b", "name": "b"}]), "partly numbers"),
        (coco([image(1)], [], [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]), "also that of 'a'"),
    ],
)
def test_a_file_that_is_no_coco_file_is_one_sentence(files: Files, text: bytes, says: str) -> None:
    root = files({"annotations/a.json": text, "1.jpg": picture(1)})
    with pytest.raises(DataRejected, match=says):
        list(find_source("coco").scan(root, SourceOptions(needs="boxes")))


def test_categories_of_one_name_are_one_class(files: Files) -> None:
    twice = [{"id": 0, "name": "cat"}, {"id": 1, "name": "cat"}]
    root = files({"annotations/a.json": coco([image(1)], [box(1, 1, 0), box(2, 1, 1)], twice), "1.jpg": picture(1)})
    found = scan(root, "coco", "boxes")
    assert classes(found) == [("cat", None)]
    assert "several categories named 'cat'" in notices(found)


def test_a_json_file_is_a_source_and_its_images_are_below_root(files: Files, tmp_path: Path) -> None:
    root = files({"photos/deep/1.jpg": picture(1)})
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / "elsewhere" / "labels.json"
    path.write_bytes(coco([image(1, file_name="deep/1.jpg")]))
    found = scan(path, "coco", "boxes", root=root / "photos")
    item = items(found)["deep/1.jpg"]
    assert item.place == str(root / "photos" / "deep" / "1.jpg")


def test_a_json_file_in_annotations_has_its_images_beside_that_folder(files: Files) -> None:
    root = files({"annotations/instances_val2017.json": coco([image(1)]), "val2017/1.jpg": picture(1)})
    found = scan(root / "annotations" / "instances_val2017.json", "coco", "boxes")
    item = items(found)["val2017/1.jpg"]
    assert isinstance(item.place, str)
    assert os.path.samefile(root / "annotations" / item.place, root / "val2017" / "1.jpg")


def test_files_beside_the_images_name_their_split_by_the_folder(files: Files) -> None:
    names = ("train", "valid", "test")
    root = files(
        {f"{name}/_annotations.coco.json": coco([image(i)]) for i, name in enumerate(names)}
        | {f"{name}/{i}.jpg": picture(i) for i, name in enumerate(names)}
    )
    assert splits(scan(root, "coco", "boxes")) == {"train/0.jpg": "train", "valid/1.jpg": "val", "test/2.jpg": "test"}


def test_annotations_names_one_file(files: Files) -> None:
    texts = {f"annotations/instances_{name}.json": coco([image(1)], [box(1, 1)]) for name in ("a", "b")}
    root = files({**texts, "images/1.jpg": picture(1)})
    with pytest.raises(DataRejected, match="--annotations"):
        scan(root, "coco", "boxes")
    found = scan(root, "coco", "boxes", annotations=root / "annotations" / "instances_b.json")
    assert list(items(found)) == ["images/1.jpg"]


def test_two_files_of_one_split_are_one_sentence_and_one_can_be_ignored(files: Files) -> None:
    names = [f"{split}{year}" for year in (2014, 2017) for split in ("train", "val")]
    root = files(
        {f"annotations/instances_{name}.json": coco([image(1)]) for name in names}
        | {f"{name}/1.jpg": picture(1) for name in names}
    )
    with pytest.raises(DataRejected, match="'train2014' and 'train2017' are both of the split train"):
        scan(root, "coco", "boxes")
    found = scan(root, "coco", "boxes", ignore=("*2014.json", "*2014/"))
    assert splits(found) == {"train2017/1.jpg": "train", "val2017/1.jpg": "val"}
    assert "matched nothing" not in notices(found)


def test_annotated_images_in_an_ignored_folder_are_counted(files: Files) -> None:
    root = files({"annotations/a.json": coco([image(1)]), "images/1.jpg": picture(1)})
    found = scan(root, "coco", "boxes", ignore=("/images/",))
    assert not items(found)
    assert not reasons(found)
    assert "1 annotated image is in folders that are ignored" in notices(found)


def test_images_that_are_nowhere_are_one_sentence_that_names_root(files: Files) -> None:
    with pytest.raises(DataRejected, match="--root"):
        scan(files({"annotations/instances_a.json": coco([image(1)]), "far/away/1.jpg": picture(1)}), "coco", "boxes")


def test_a_folder_without_a_file_that_fits_is_one_sentence(files: Files) -> None:
    root = files({"annotations/captions_train.json": coco([image(1)])})
    with pytest.raises(WrongUsage, match="--annotations"):
        scan(root, "coco", "boxes")


def test_rows_that_need_nothing_need_no_annotations(files: Files) -> None:
    root = files({"annotations/image_info_test.json": as_json({"images": [image(1)]}), "images/1.jpg": picture(1)})
    assert annotations(scan(root, "coco", None)) == {"images/1.jpg": None}


def test_a_class_per_image_is_not_in_coco(files: Files) -> None:
    with pytest.raises(DataprepError, match="--schema"):
        scan(one(files), "coco", "class")


def test_a_category_that_ignore_matches_is_left_out_and_counted(files: Files) -> None:
    found = scan(one(files, box(1, 1, 90), box(2, 1, 17), box(3, 1, 90)), "coco", "boxes", ignore=("zebra",))
    assert annotations(found)["images/1.jpg"]["classes"] == ["cat"]
    assert [name for name, _ in classes(found)] == ["person", "cat"]
    assert "2 objects of the class 'zebra' are ignored by --ignore" in notices(found)
    assert "matched nothing" not in notices(found)
