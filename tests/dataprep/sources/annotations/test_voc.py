"""Layout voc: XML files, lists and masks, to the last broken file."""

from pathlib import Path

import pytest

from dataprep.errors import DataRejected, WrongUsage
from dataprep.options import SourceOptions
from dataprep.sources import find_source
from tests.dataprep.examples import Files, picture
from tests.dataprep.sources.annotations.examples import (
    annotations,
    classes,
    details,
    items,
    mask,
    notices,
    reasons,
    rules,
    scan,
    splits,
)

BOX = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>24</xmax><ymax>16</ymax></bndbox>"
SIZE = "<size><width>24</width><height>16</height><depth>3</depth></size>"


def thing(name: str = "cat", box: str = BOX, more: str = "") -> str:
    return f"<object><name>{name}</name>{more}{box}</object>"


def xml(*objects: str, size: str = SIZE) -> bytes:
    return f"<annotation><filename>1.jpg</filename>{size}{''.join(objects)}</annotation>".encode()


def one(files: Files, text: bytes) -> Path:
    """A dataset of one image with this XML."""
    return files({"JPEGImages/1.jpg": picture(1), "Annotations/1.xml": text})


def test_pixels_counted_from_one_become_corners_counted_from_zero(files: Files) -> None:
    root = one(files, xml(thing(), thing("dog", BOX.replace("24", "20.5"), "<difficult>1</difficult>")))
    found = scan(root, "voc", "boxes")
    assert annotations(found) == {
        "JPEGImages/1.jpg": {
            "classes": ["cat", "dog"],
            "boxes": [[0, 1, 24, 16], [0, 1, 20.5, 16]],
            "difficult": [0, 1],
            "size": [24, 16],
        }
    }
    assert sorted(classes(found)) == [("cat", None), ("dog", None)]
    assert "ImageSets/Main has no list" in notices(found)


def test_classes_are_the_distinct_names(files: Files) -> None:
    root = one(files, xml(thing("dog"), thing("cat", box=""), thing("dog")))
    assert annotations(scan(root, "voc", "classes")) == {"JPEGImages/1.jpg": {"classes": ["cat", "dog"]}}


def test_an_image_without_objects_is_kept(files: Files) -> None:
    found = scan(one(files, xml()), "voc", "boxes")
    assert annotations(found)["JPEGImages/1.jpg"]["boxes"] == []


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ({"train": "1\n2\n", "val": "3\n", "trainval": "1\n2\n3\n"}, ["train", "train", "val"]),
        ({"trainval": "1\n2\n", "test": "3  1\n"}, ["train", "train", "test"]),
        ({"trainval": "1\n2\n3\n"}, [None, None, None]),
        ({"train": "1\r\n\r\n2\r\n3", "cat_train": "1 -1\n"}, [None, None, None]),
    ],
)
def test_lists_give_the_splits(files: Files, lists: dict[str, str], expected: list[str | None]) -> None:
    root = files(
        {f"ImageSets/Main/{name}.txt": text.encode() for name, text in lists.items()}
        | {f"JPEGImages/{n}.jpg": picture(n) for n in (1, 2, 3)}
        | {f"Annotations/{n}.xml": xml(thing()) for n in (1, 2, 3)}
    )
    found = scan(root, "voc", "boxes")
    assert splits(found) == {f"JPEGImages/{n}.jpg": split for n, split in zip((1, 2, 3), expected, strict=True)}


def test_what_the_lists_and_the_folders_do_not_share(files: Files) -> None:
    root = files(
        {
            "ImageSets/Main/train.txt": b"1\n2\n3\n5\n",
            "ImageSets/Main/val.txt": b"5\n",
            **{f"JPEGImages/{n}.jpg": picture(n) for n in (1, 2, 4, 5)},
            "JPEGImages/1.png": picture(1, "PNG"),
            "Annotations/1.xml": xml(),
            "Annotations/5.xml": xml(),
        }
    )
    found = scan(root, "voc", "boxes")
    assert not items(found)
    assert reasons(found) == {
        "JPEGImages/1.jpg": "duplicate_annotation",
        "JPEGImages/1.png": "duplicate_annotation",
        "JPEGImages/2.jpg": "missing_annotation",
        "JPEGImages/3": "missing_file",
        "JPEGImages/5.jpg": "duplicate_annotation",
    }
    assert rules(found) == {"JPEGImages/4.jpg": "not in the annotations"}
    assert "1 image is in no list of ImageSets" in notices(found)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"<annotation><object>",
        b"no XML \xff",
        b'<?xml version="1.0" encoding="no such"?><a/>',
        xml(thing(box="")),
        xml(thing("")),
        xml("<object/>"),
        xml(thing(box=BOX.replace("<xmin>1</xmin>", ""))),
        xml(thing(box=BOX.replace("24", "nan"))),
        xml(thing(box=BOX.replace("24", "1e300"))),
        xml(thing(box=BOX.replace("24", "wide"))),
        xml(thing(more="<difficult>perhaps</difficult>")),
        xml(size="<size><width>24</width></size>"),
        xml(size="<size><width>-24</width><height>16</height></size>"),
    ],
)
def test_a_broken_xml_rejects_its_image(files: Files, text: bytes) -> None:
    found = scan(one(files, text), "voc", "boxes")
    assert reasons(found) == {"JPEGImages/1.jpg": "invalid_annotation"}
    assert "Annotations/1.xml" in details(found)["JPEGImages/1.jpg"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_not_expanded(files: Files, encoding: str) -> None:
    levels = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 30))
    text = f'<!DOCTYPE a [<!ENTITY a0 "ha">{levels}]><annotation>{thing("&a29;")}</annotation>'
    found = scan(one(files, text.encode(encoding)), "voc", "boxes")
    assert reasons(found) == {"JPEGImages/1.jpg": "invalid_annotation"}
    assert "DOCTYPE" in details(found)["JPEGImages/1.jpg"]


@pytest.mark.parametrize("size", ["", "<size><width>0</width><height>0</height></size>"])
def test_a_size_that_is_not_told_is_unknown(files: Files, size: str) -> None:
    assert "size" not in annotations(scan(one(files, xml(size=size)), "voc", "boxes"))["JPEGImages/1.jpg"]


def test_the_size_of_the_xml_is_passed_on_to_be_compared(files: Files) -> None:
    found = scan(one(files, xml(thing(), size=SIZE.replace("24", "25"))), "voc", "boxes")
    assert annotations(found)["JPEGImages/1.jpg"]["size"] == [25, 16]


def test_annotations_names_another_folder_of_xml(files: Files) -> None:
    root = files({"JPEGImages/1.jpg": picture(1), "SegmentationClass/x": b"", "checked/1.xml": xml(thing())})
    found = scan(root, "voc", "classes", annotations=root / "checked")
    assert annotations(found) == {"JPEGImages/1.jpg": {"classes": ["cat"]}}


def segmentation(files: Files, name: str) -> Path:
    pixels = [[0] * 24] * 15 + [[2] * 23 + [255]]
    return files(
        {
            "ImageSets/Segmentation/train.txt": b"1\n2\n",
            "ImageSets/Segmentation/val.txt": b"3\n",
            **{f"JPEGImages/{n}.jpg": picture(n) for n in (1, 2, 3)},
            **{f"SegmentationClass/{n}.png": mask(pixels) for n in (1, 3, 4)},
            "Annotations/1.xml": xml(thing(name)),
        }
    )


def test_masks_of_the_classes_of_voc(files: Files) -> None:
    root = segmentation(files, "bicycle")
    found = scan(root, "voc", "mask")
    status = (root / "SegmentationClass" / "1.png").stat()
    assert annotations(found)["JPEGImages/1.jpg"] == {
        "mask_file": {"place": "SegmentationClass/1.png", "size": status.st_size, "mtime_ns": status.st_mtime_ns}
    }
    assert splits(found) == {"JPEGImages/1.jpg": "train", "JPEGImages/3.jpg": "val"}
    assert reasons(found) == {"JPEGImages/2.jpg": "missing_annotation"}
    assert len(classes(found)) == 20
    assert classes(found)[1] == ("bicycle", None)
    assert "1 mask is of no image in use" in notices(found)


def test_masks_of_other_classes_are_numbered_or_named_by_the_user(files: Files) -> None:
    root = segmentation(files, "unicorn")
    assert classes(scan(root, "voc", "mask")) == [("1", None), ("2", None)]
    assert classes(scan(root, "voc", "mask", classes=("x", "unicorn"))) == [("x", None), ("unicorn", None)]


def test_rows_that_need_nothing_need_no_annotations(files: Files) -> None:
    found = scan(one(files, b"broken"), "voc", None)
    assert annotations(found) == {"JPEGImages/1.jpg": None}


def test_a_file_is_not_a_folder_of_voc(files: Files) -> None:
    root = one(files, xml())
    with pytest.raises(WrongUsage, match="JPEGImages"):
        list(find_source("voc").scan(root / "JPEGImages" / "1.jpg", SourceOptions(needs="boxes")))


def test_a_list_in_another_encoding_is_one_sentence(files: Files) -> None:
    root = files(
        {"ImageSets/Main/train.txt": b"\xff\xfe\xfd", "JPEGImages/1.jpg": picture(1), "Annotations/1.xml": xml()}
    )
    with pytest.raises(DataRejected, match="--encoding"):
        scan(root, "voc", "boxes")


def test_a_class_that_ignore_matches_is_left_out_and_counted(files: Files) -> None:
    found = scan(one(files, xml(thing("cat"), thing("dog"))), "voc", "boxes", ignore=("dog",))
    assert annotations(found)["JPEGImages/1.jpg"]["classes"] == ["cat"]
    assert classes(found) == [("cat", None)]
    assert "1 object of the class 'dog' is ignored by --ignore" in notices(found)
