"""Record kinds with annotations: from a source that gives them directly, to the stored columns."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataprep.items import FoundClass, Item, ScanEntry, size_and_time
from dataprep.mindrecord.reader import ShardReader
from dataprep.options import Budget, SourceOptions
from dataprep.sources import SOURCES
from dataprep.sources.source import Source
from schemas.dataset import load_dataset
from tests.dataprep.examples import encoded, shard

WIDTH, HEIGHT = 40, 24


class Given:
    """A folder of images with the annotations that a test gives them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.annotations: dict[str, Any] = {}
        folder.mkdir()

    def add(self, name: str, annotation: Any, angle: int = 1) -> None:
        exif = Image.Exif()
        exif[0x0112] = angle
        image = Image.new("RGB", (WIDTH, HEIGHT), (len(self.annotations) * 9, 50, 60))
        (self.folder / name).write_bytes(encoded(image, "PNG", exif=exif))
        self.annotations[name] = annotation

    def scan(self, root: Path, _options: SourceOptions) -> Iterator[ScanEntry]:
        for number, name in enumerate(("dog", "cat", "ant")):
            yield FoundClass(name, None, number)
        for name, annotation in self.annotations.items():
            yield Item(name, "", "train", *size_and_time((root / name).stat()), None, annotation)

    def shard(self, out: Path, kind: str, **options: Any) -> dict[str, dict[str, Any]]:
        """The rows by key."""
        budget = {"max_rejects": Budget(99, False), "max_class_loss": Budget(1, True), "num_shards": 1}
        shard(self.folder, out, layout="given", schema=kind, **(budget | options))
        with ShardReader(out / "train.mindrecord0") as reader:
            return {row["key"]: row for row in reader}


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Given:
    source = Given(tmp_path / "in")
    gives = ("class", "classes", "boxes", "mask", "captions")
    monkeypatch.setitem(SOURCES, "given", Source(source.scan, "SOURCE of a test", gives=gives))
    return source


def boxes(*corners: list[float], classes: list[str] | None = None, **more: Any) -> dict[str, Any]:
    return {"boxes": list(corners), "classes": classes or ["cat"] * len(corners), **more}


def test_boxes_are_stored_in_pixels_of_the_stored_image(given: Given, tmp_path: Path) -> None:
    given.add("plain.png", boxes([1, 2, 11, 8], [0, 0, 40, 24], classes=["ant", "dog"], iscrowd=[0, 1]))
    given.add("turned.png", boxes([4, 2, 20, 12]), angle=6)
    given.add("upright.png", boxes([2, 4, 12, 20], size=[HEIGHT, WIDTH]), angle=6)
    given.add("none.png", boxes())
    rows = given.shard(tmp_path / "out", "detection", resize=12)
    assert rows["plain.png"]["boxes"] == [0.5, 1, 5.5, 4, 0, 0, 20, 12]
    assert (rows["plain.png"]["labels"], rows["plain.png"]["iscrowd"], rows["plain.png"]["difficult"]) == (
        [2, 0],
        [0, 1],
        [0, 0],
    )
    assert rows["turned.png"]["boxes"] == [6, 2, 11, 10]
    assert rows["upright.png"]["boxes"] == [1, 2, 6, 10]
    assert (rows["none.png"]["boxes"], rows["none.png"]["labels"]) == ([0, 0, 0, 0], [-1])
    dataset = load_dataset(tmp_path / "out")
    assert (dataset.classes, dataset.splits["train"].class_rows) == (("dog", "cat", "ant"), (1, 2, 1))


INVALID = {
    "outside": [50, 0, 60, 10],
    "inverted": [10, 5, 5, 10],
    "empty": [5, 5, 5, 9],
    "nan": [float("nan"), 0, 4, 4],
    "infinite": [0, 0, float("inf"), 4],
}


def test_invalid_boxes_are_dropped_or_cut_and_counted(given: Given, tmp_path: Path) -> None:
    for name, box in INVALID.items():
        given.add(f"{name}.png", boxes(box, [1, 1, 5, 5], classes=["dog", "cat"]))
    given.add("over.png", boxes([-3, 2, 45, 20]))
    rows = given.shard(tmp_path / "out", "detection")
    assert rows.pop("over.png")["boxes"] == [0, 2, 40, 20]
    assert rows.pop("infinite.png")["labels"] == [1]
    assert {(tuple(row["boxes"]), tuple(row["labels"])) for row in rows.values()} == {((1, 1, 5, 5), (1,))}
    assert load_dataset(tmp_path / "out").changed == {"box_clipped": 1, "box_dropped": 5}


def test_invalid_boxes_are_rejects_if_asked(given: Given, tmp_path: Path) -> None:
    for name, box in {**INVALID, "over": [-3, 2, 45, 20]}.items():
        given.add(f"{name}.png", boxes(box))
    given.add("fine.png", boxes([0, 0, 40, 24]))
    assert list(given.shard(tmp_path / "out", "detection", boxes="reject")) == ["fine.png"]
    assert load_dataset(tmp_path / "out").rejected == {"invalid_box": 6}


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (boxes([1, 2, 3]), "invalid_box"),
        (boxes([1, 2, 3, "x"]), "invalid_box"),
        (boxes([1, 2, 3, 4], classes=["cat", "cat"]), "invalid_box"),
        (boxes([1, 2, 3, 4], iscrowd=[0, 0]), "invalid_box"),
        (boxes([1, 2, 3, 4], classes=["whale"]), "unknown_class"),
        (boxes([1, 2, 3, 4], size=[41, 24]), "size_disagrees"),
    ],
)
def test_boxes_that_cannot_be_used_are_rejects(given: Given, tmp_path: Path, annotation: Any, reason: str) -> None:
    given.add("bad.png", annotation)
    given.add("fine.png", boxes([0, 0, 4, 4]))
    assert list(given.shard(tmp_path / "out", "detection")) == ["fine.png"]
    assert load_dataset(tmp_path / "out").rejected == {reason: 1}


def mask_of(row: dict[str, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(Image.open(io.BytesIO(row["mask"])))


SQUARE = [4.0, 2.0, 20.0, 2.0, 20.0, 12.0, 4.0, 12.0]


def test_polygons_are_drawn_in_order_at_the_stored_size(given: Given, tmp_path: Path) -> None:
    segments = [{"class": "ant", "polygons": [SQUARE]}, {"class": "dog", "polygons": [[4, 2, 12, 2, 12, 12, 4, 12]]}]
    given.add("plain.png", {"segments": segments, "classes": ["ant", "dog"]})
    given.add("turned.png", {"segments": segments[:1], "classes": ["ant"]}, angle=6)
    rows = given.shard(tmp_path / "out", "segmentation", resize=12)
    expected = np.zeros((12, 20), np.uint8)
    expected[1:6, 2:10], expected[1:6, 2:6] = 3, 1
    assert (mask_of(rows["plain.png"]) == expected).all()
    turned = np.zeros((20, 12), np.uint8)
    turned[2:10, 6:11] = 3
    assert (mask_of(rows["turned.png"]) == turned).all()
    assert load_dataset(tmp_path / "out").splits["train"].class_rows == (1, 0, 2)


def mask_file(given: Given, name: str, image: Image.Image, **options: Any) -> dict[str, Any]:
    path = given.folder.parent / name
    path.write_bytes(encoded(image, "PNG", **options))
    size, mtime_ns = size_and_time(path.stat())
    return {"mask_file": {"place": f"../{name}", "size": size, "mtime_ns": mtime_ns}}


def test_mask_files_keep_their_values_and_follow_the_image(given: Given, tmp_path: Path) -> None:
    values = np.zeros((HEIGHT, WIDTH), np.uint8)
    values[2:12, 4:20], values[0, 0] = 2, 255
    palette = Image.fromarray(values, "P")
    palette.putpalette(list(range(256)) * 3)
    given.add("palette.png", mask_file(given, "p.png", palette))
    given.add("deep.png", mask_file(given, "d.png", Image.fromarray(values.astype(np.uint16))))
    given.add("turned.png", mask_file(given, "t.png", Image.fromarray(values)), angle=6)
    rows = given.shard(tmp_path / "out", "segmentation")
    assert (mask_of(rows["palette.png"]) == values).all()
    assert (mask_of(rows["deep.png"]) == values).all()
    assert (mask_of(rows["turned.png"]) == np.rot90(values, -1)).all()
    assert load_dataset(tmp_path / "out").splits["train"].class_rows == (0, 3, 0)


def test_masks_that_cannot_be_used_are_rejects(given: Given, tmp_path: Path) -> None:
    grey = np.zeros((HEIGHT, WIDTH), np.uint8)
    given.add("fine.png", mask_file(given, "f.png", Image.fromarray(grey)))
    given.add("size.png", mask_file(given, "s.png", Image.fromarray(grey[:-1])))
    given.add("colour.png", mask_file(given, "c.png", Image.new("RGB", (WIDTH, HEIGHT))))
    given.add("value.png", mask_file(given, "v.png", Image.fromarray(grey + 4)))
    given.add("broken.png", mask_file(given, "b.png", Image.fromarray(grey)))
    (given.folder.parent / "b.png").write_bytes(b"no mask")
    given.add("none.png", {"classes": []})
    given.add("points.png", {"segments": [{"class": "cat", "polygons": [[1, 2, 3, 4]]}], "classes": ["cat"]})
    given.add("rle.png", {"segments": [{"class": "cat", "rle": {"counts": [5], "size": [24, 40]}}], "classes": ["cat"]})
    rows = given.shard(tmp_path / "out", "segmentation")
    assert list(rows) == ["fine.png"]
    assert load_dataset(tmp_path / "out").rejected == {
        "size_disagrees": 1, "unsupported_mask": 1, "unknown_class": 1, "unreadable_annotation": 1, "no_mask": 1,
        "invalid_segment": 2,
    }  # fmt: skip


def test_classes_become_multi_hot_or_a_list(given: Given, tmp_path: Path) -> None:
    for name, classes in (("two", ["ant", "dog"]), ("one", ["cat", "cat"]), ("none", []), ("odd", ["whale"])):
        given.add(f"{name}.png", {"classes": classes})
    rows = given.shard(tmp_path / "hot", "multilabel")
    assert {key: row["labels"] for key, row in rows.items()} == {
        "two.png": [1, 0, 1],
        "one.png": [0, 1, 0],
        "none.png": [0, 0, 0],
    }
    fields = [
        {"name": "image", "type": "bytes", "role": "image"},
        {"name": "tags", "type": "int32", "shape": [-1], "role": "labels"},
        {"name": "key", "type": "string", "role": "key", "index": True},
    ]
    schema = tmp_path / "lists.json"
    schema.write_text(json.dumps({"name": "lists", "kind": "multilabel", "fields": fields}))
    rows = given.shard(tmp_path / "lists", str(schema))
    assert {key: row["tags"] for key, row in rows.items()} == {"two.png": [0, 2], "one.png": [1]}
    assert load_dataset(tmp_path / "lists").rejected == {"no_class": 1, "unknown_class": 1}


def test_a_row_without_the_value_of_a_field_or_with_a_wrong_one_is_a_reject(given: Given, tmp_path: Path) -> None:
    given.add("fine.png", {"captions": ["a"], "fields": {"age": 3}})
    given.add("missing.png", {"captions": ["a"]})
    given.add("wrong.png", {"captions": ["a"], "fields": {"age": "x"}})
    given.add("silent.png", {"captions": [" "], "fields": {"age": 3}})
    source = SOURCES["given"]
    assert isinstance(source, Source)
    SOURCES["given"] = Source(source.scan, source.expected, gives=source.gives, gives_fields=True)
    rows = given.shard(tmp_path / "out", "caption", field=("age:int32",))
    assert [(row["captions"], row["age"]) for row in rows.values()] == [('["a"]', 3)]
    assert load_dataset(tmp_path / "out").rejected == {"missing_field": 1, "invalid_record": 1, "no_caption": 1}


def test_copies_with_different_annotations_are_conflicts(given: Given, tmp_path: Path) -> None:
    given.add("a.png", boxes([1, 2, 3, 4]))
    given.annotations["b.png"] = boxes([1, 2, 3, 5])
    (given.folder / "b.png").write_bytes((given.folder / "a.png").read_bytes())
    given.shard(tmp_path / "out", "detection")
    assert load_dataset(tmp_path / "out").duplicates == {"groups": 1, "leaks": 0, "conflicts": 1}
