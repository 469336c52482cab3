"""Annotations on disk become sealed rows, in the label order of their format."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dataprep.errors import DataRejected
from dataprep.options import Budget
from schemas.dataset import load_dataset
from tests.dataprep.examples import Files, picture, shard
from tests.dataprep.sources.annotations.examples import as_json, mask, turned

ALL = Budget(1.0, True)
XML = (
    "<annotation><size><width>{width}</width><height>16</height></size><object><name>cat</name><bndbox><xmin>1</xmin>"
    "<ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></object></annotation>"
)


def coco(files: Files) -> Path:
    """Twelve images in two splits; the first of each has no annotation, and one names an unknown category."""
    contents: dict[str, bytes] = {}
    categories = [{"id": 90, "name": "ant"}, {"id": 3, "name": "zebra"}]
    for split, numbers in (("train", range(8)), ("val", range(8, 12))):
        images = [{"id": n, "file_name": f"{n}.jpg", "width": 24, "height": 16} for n in numbers]
        boxes = [
            {"id": n, "image_id": n, "category_id": 3 if n % 2 else 90, "bbox": [1, 2, 3, 4], "iscrowd": 0,
             "segmentation": [[1, 2, 4, 2, 4, 6]]}
            for n in numbers[1:]
        ]  # fmt: skip
        boxes[-1]["category_id"] = 4 if split == "val" else 3
        captions = [{"id": n, "image_id": n, "caption": f"image {n}"} for n in numbers[1:]]
        for kind, found in (("instances", boxes), ("captions", captions)):
            text = as_json({"images": images, "annotations": found, "categories": categories})
            contents[f"annotations/{kind}_{split}2017.json"] = text
        contents |= {f"{split}2017/{n}.jpg": picture(n) for n in numbers}
    return files(contents)


def voc(files: Files) -> Path:
    """Four images: one is of another size than its XML, and one has no XML."""
    return files(
        {f"JPEGImages/{n}.jpg": picture(n) for n in range(4)}
        | {f"Annotations/{n}.xml": XML.format(width=25 if n == 1 else 24).encode() for n in range(3)}
    )


def yolo(files: Files) -> Path:
    """Four images: one has no labels, one a malformed line, and one is to be turned."""
    return files(
        {f"images/{n}.jpg": picture(n) for n in range(3)}
        | {"images/3.jpg": turned(6, (24, 16))}
        | {f"labels/{n}.txt": b"1 0.5 0.5 0.5 0.5\n" + b"x" * (n == 1) for n in (0, 1, 3)}
        | {"data.yaml": b"train: images\nnames: [zebra, ant]\n"}
    )


def masks(files: Files) -> Path:
    """Four images: one mask is of another size, and one is missing."""
    values = [[n % 3 for n in range(24)]] * 16
    return files(
        {f"images/{n}.jpg": picture(n) for n in range(4)} | {f"masks/{n}.png": mask(values[n == 1 :]) for n in range(3)}
    )


def test_multilabel_rows_of_coco(files: Files, tmp_path: Path) -> None:
    shard(coco(files), tmp_path / "out", schema="multilabel", max_rejects=ALL)
    dataset = load_dataset(tmp_path / "out")
    assert dataset.classes == ("zebra", "ant")
    assert dataset.rejected == {"unknown_class": 1}
    assert {name: split.rows for name, split in dataset.splits.items()} == {"train": 8, "val": 3}


def test_captions_of_coco(files: Files, tmp_path: Path) -> None:
    shard(coco(files), tmp_path / "out", schema="caption", max_rejects=ALL)
    dataset = load_dataset(tmp_path / "out")
    assert dataset.rejected == {"no_caption": 2}
    assert dataset.written == 10


@pytest.mark.parametrize(("source", "rows"), [(coco, 12), (voc, 4), (yolo, 4), (masks, 4)])
def test_any_layout_gives_unlabelled_rows(
    files: Files, tmp_path: Path, source: Callable[[Files], Path], rows: int
) -> None:
    summary = shard(source(files), tmp_path / "out", schema="unlabelled", max_rejects=ALL)
    assert (summary.written, summary.rejected) == (rows, {})


def test_multilabel_rows_of_yolo_keep_the_order_of_names(files: Files, tmp_path: Path) -> None:
    shard(yolo(files), tmp_path / "out", schema="multilabel", max_rejects=ALL)
    dataset = load_dataset(tmp_path / "out")
    assert dataset.classes == ("zebra", "ant")
    assert dataset.rejected == {"invalid_annotation": 1}


def test_multilabel_rows_of_voc(files: Files, tmp_path: Path) -> None:
    shard(voc(files), tmp_path / "out", schema="multilabel", max_rejects=ALL)
    assert load_dataset(tmp_path / "out").rejected == {"missing_annotation": 1}


def test_the_file_is_the_same_source_as_its_folder(files: Files, tmp_path: Path) -> None:
    root = yolo(files)
    folder = shard(root, tmp_path / "folder", schema="multilabel", max_rejects=ALL)
    file = shard(root / "data.yaml", tmp_path / "file", schema="multilabel", max_rejects=ALL)
    assert (folder.written, folder.rejected) == (file.written, file.rejected)
    for path in (tmp_path / "folder").glob("*.mindrecord*"):
        assert path.read_bytes() == (tmp_path / "file" / path.name).read_bytes()


def test_a_changed_annotation_is_not_mixed_with_the_old_ones(files: Files, tmp_path: Path) -> None:
    root = yolo(files)
    shard(root, tmp_path / "out", schema="multilabel", max_rejects=ALL)
    (tmp_path / "out" / "dataset.json").unlink()
    (root / "labels/0.txt").write_bytes(b"0 0.5 0.5 0.5 0.5\n")
    with pytest.raises(Exception, match="has changed since"):
        shard(root, tmp_path / "out", schema="multilabel", max_rejects=ALL)


def test_a_cut_file_is_refused_and_nothing_is_sealed(files: Files, tmp_path: Path) -> None:
    root = coco(files)
    path = root / "annotations/instances_train2017.json"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataRejected) as refused:
        shard(root, tmp_path / "out", schema="multilabel", max_rejects=ALL)
    assert refused.value.exit_code == 3
    assert not (tmp_path / "out" / "dataset.json").exists()


@pytest.mark.parametrize(("source", "written", "rejects"), [(coco, 11, 1), (voc, 2, 2), (yolo, 3, 1)])
def test_detection_rows(
    files: Files, tmp_path: Path, source: Callable[[Files], Path], written: int, rejects: int
) -> None:
    summary = shard(source(files), tmp_path / "out", schema="detection", max_rejects=ALL, max_class_loss=ALL)
    assert (summary.written, sum(summary.rejected.values())) == (written, rejects)


@pytest.mark.parametrize(("source", "written", "rejects"), [(coco, 11, 1), (masks, 2, 2)])
def test_segmentation_rows(
    files: Files, tmp_path: Path, source: Callable[[Files], Path], written: int, rejects: int
) -> None:
    summary = shard(source(files), tmp_path / "out", schema="segmentation", max_rejects=ALL)
    assert (summary.written, sum(summary.rejected.values())) == (written, rejects)
