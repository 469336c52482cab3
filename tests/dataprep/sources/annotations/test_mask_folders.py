"""Layout masks: images and masks of the same name."""

from pathlib import Path

import pytest

from dataprep.errors import DataRejected, WrongUsage
from dataprep.options import SourceOptions
from dataprep.sources import find_source
from tests.dataprep.examples import Files, picture
from tests.dataprep.sources.annotations.examples import (
    annotations,
    classes,
    mask,
    notices,
    reasons,
    scan,
    splits,
)

PIXELS = [[0, 1, 2, 255]] * 4


def test_masks_of_the_same_name_are_found_and_classes_are_numbered(files: Files) -> None:
    root = files(
        {f"images/{name}.jpg": picture(1) for name in ("1", "deep/2")}
        | {f"masks/{name}.png": mask(PIXELS) for name in ("1", "deep/2")}
    )
    found = scan(root, "masks", "mask")
    status = (root / "masks/deep/2.png").stat()
    assert annotations(found)["images/deep/2.jpg"] == {
        "mask_file": {"place": "masks/deep/2.png", "size": status.st_size, "mtime_ns": status.st_mtime_ns}
    }
    assert set(splits(found).values()) == {None}
    assert classes(found) == [("1", None), ("2", None)]


@pytest.mark.parametrize("form", ["{split}/{what}", "{what}/{split}"])
def test_split_folders_are_inside_or_outside(files: Files, form: str) -> None:
    names = {split: form.format(split=split, what="{what}") for split in ("train", "val")}
    root = files(
        {f"{name.format(what='images')}/1.jpg": picture(1) for name in names.values()}
        | {f"{name.format(what='masks')}/1.png": mask(PIXELS) for name in names.values()}
    )
    found = scan(root, "masks", "mask")
    assert splits(found) == {f"{name.format(what='images')}/1.jpg": split for split, name in names.items()}
    assert not reasons(found)


def test_a_missing_mask_and_several_masks_of_one_name(files: Files) -> None:
    root = files(
        {f"images/{n}.jpg": picture(n) for n in (1, 2, 3, 5)}
        | {"images/5.png": picture(5, "PNG"), "masks/2.bmp": mask(PIXELS)}
        | {f"masks/{n}.png": mask(PIXELS) for n in (1, 2, 4, 5)}
    )
    found = scan(root, "masks", "mask")
    assert list(splits(found)) == ["images/1.jpg"]
    assert reasons(found) == {
        "images/2.jpg": "duplicate_annotation",
        "images/3.jpg": "missing_annotation",
        "images/5.jpg": "duplicate_annotation",
        "images/5.png": "duplicate_annotation",
    }
    assert "1 mask is of no image in use, and ignored; the first is 'masks/4.png'" in notices(found)


def masks(files: Files, data: bytes) -> Path:
    return files({"images/1.jpg": picture(1), "masks/1.png": data})


def test_values_that_are_not_used_are_classes_all_the_same(files: Files) -> None:
    found = scan(masks(files, mask([[0, 3]])), "masks", "mask")
    assert [name for name, _ in classes(found)] == ["1", "2", "3"]
    assert "1 of the values 1 to 3" in notices(found)


@pytest.mark.parametrize("data", [mask([[0, 255]]), picture(1, "PNG"), b"broken"])
def test_masks_without_a_class_are_one_sentence(files: Files, data: bytes) -> None:
    with pytest.raises(DataRejected, match="--ignore-value"):
        scan(masks(files, data), "masks", "mask")


def test_named_classes_need_no_look_into_the_masks(files: Files) -> None:
    found = scan(masks(files, b"broken"), "masks", "mask", classes=("road", "sky"))
    assert classes(found) == [("road", None), ("sky", None)]


def test_the_ignore_value_is_no_class(files: Files) -> None:
    assert len(classes(scan(masks(files, mask([[0, 1, 2, 9]])), "masks", "mask", ignore_value=9))) == 2


def test_annotations_names_the_folder_of_masks(files: Files) -> None:
    root = files({"images/1.jpg": picture(1), "labels/1.png": mask(PIXELS)})
    options = SourceOptions(needs="mask", annotations=root / "labels")
    found = list(find_source("masks").scan(root, options))
    assert annotations(found)["images/1.jpg"]["mask_file"]["place"] == "labels/1.png"


@pytest.mark.parametrize("name", ["images/1.jpg", "other/1.jpg"])
def test_folders_of_other_names_are_one_sentence(files: Files, name: str) -> None:
    with pytest.raises(WrongUsage, match="--annotations"):
        list(find_source("masks").scan(files({name: picture(1)}), SourceOptions(needs="mask")))


def test_rows_that_need_nothing_need_no_masks(files: Files) -> None:
    root = files({"images/1.jpg": picture(1), "images/2.jpg": picture(2), "masks/1.png": b""})
    assert annotations(scan(root, "masks", None)) == {"images/1.jpg": None, "images/2.jpg": None}
