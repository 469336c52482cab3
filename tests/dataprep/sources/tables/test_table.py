"""CSV, TSV and JSON Lines files, and metadata files of image folders."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataprep.errors import DataprepError
from dataprep.items import Item, Reject, ScanEntry
from dataprep.mindrecord.reader import ShardReader
from dataprep.options import SourceOptions
from dataprep.sources import find_source
from schemas.dataset import load_dataset
from schemas.record import Field
from tests.dataprep.examples import digests, picture, shard

Write = Callable[[str, str], Path]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Twenty images in folders of two classes."""
    for number in range(20):
        path = tmp_path / "in" / "ab"[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    return tmp_path / "in"


@pytest.fixture
def table(images: Path) -> Write:
    """Write a file beside the images."""

    def write(name: str, text: str) -> Path:
        path = images / name
        path.write_bytes(text.encode())
        return path

    return write


def listing(header: str = "path,label", separator: str = ",", end: str = "\n") -> str:
    lines = [header, *(f"{'ab'[n % 2]}/{n}.jpg{separator}{'ab'[n % 2]}" for n in range(20))]
    return end.join(lines) + end


def scan(path: Path, layout: str = "csv", **options: Any) -> list[ScanEntry]:
    return list(find_source(layout).scan(path, SourceOptions(**options)))


def items(found: list[ScanEntry]) -> list[Item]:
    return [entry for entry in found if isinstance(entry, Item)]


def rejects(found: list[ScanEntry]) -> list[tuple[str, str]]:
    return [(entry.key, entry.reason) for entry in found if isinstance(entry, Reject)]


def shards(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in digests(folder).items() if ".mindrecord" in name}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", listing()),
        ("t.csv", "\ufeff" + listing(end="\r\n")),
        ("t.csv", listing("File Name;Class".replace(" ", "_"), ";")),
        ("t.tsv", listing("image\tcategory", "\t")),
        ("t.csv", listing().replace("a/0.jpg", '"a/0.jpg"').replace("\n\n", "\n") + "\n\n"),
        ("t.csv", listing().replace("a/2.jpg", "a\\2.jpg").replace("a/4.jpg", "./b/../a/4.jpg")),
        (
            "t.jsonl",
            "".join(json.dumps({"path": f"{'ab'[n % 2]}/{n}.jpg", "label": "ab"[n % 2]}) + "\n" for n in range(20)),
        ),
    ],
)
def test_the_same_images_give_the_same_shards_as_from_folders(
    table: Write, images: Path, tmp_path: Path, name: str, text: str
) -> None:
    shard(images, tmp_path / "folders")
    shard(table(name, text), tmp_path / "table")
    assert shards(tmp_path / "table") == shards(tmp_path / "folders")


def test_columns_root_and_encoding_are_options(images: Path, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_bytes("bild,klasse,teil\na/0.jpg,Bär,train\nb/1.jpg,Wal,val\n".encode("cp1252"))
    columns = {"path_column": "bild", "label_column": "klasse", "split_column": "teil"}
    with pytest.raises(DataprepError, match=r"--encoding"):
        scan(tmp_path / "list.csv", root=images, **columns)
    found = items(scan(tmp_path / "list.csv", root=images, encoding="cp1252", **columns))
    assert [(i.key, i.class_name, i.split) for i in found] == [("a/0.jpg", "Bär", "train"), ("b/1.jpg", "Wal", "val")]
    with pytest.raises(DataprepError, match="--path-column: bild, klasse, teil"):
        scan(tmp_path / "list.csv", root=images, encoding="cp1252")
    with pytest.raises(DataprepError, match="not an encoding"):
        scan(tmp_path / "list.csv", encoding="latin-99")


def test_every_row_that_cannot_be_used_is_a_reject_with_its_line(table: Write, images: Path) -> None:
    (images / "folder.jpg").mkdir()
    text = (
        "path,label,split\na/0.jpg,a,train\na/0.jpg,b,train\ngone.jpg,a,train\n,a,train\na/2.jpg,,train\n"
        "a/4.jpg,a,dev2\na/6.jpg,a\nfolder.jpg,a,train\nhttps://x/y.jpg,a,train\nb/1.jpg,b,valid\n"
    )
    found = scan(table("t.csv", text))
    assert [(item.key, item.split) for item in items(found)] == [("a/0.jpg", "train"), ("b/1.jpg", "val")]
    assert rejects(found) == [
        ("t.csv:3", "duplicate_key"),
        ("t.csv:4", "missing_file"),
        ("t.csv:5", "no_path"),
        ("t.csv:6", "no_class"),
        ("t.csv:7", "unknown_split"),
        ("t.csv:8", "invalid_row"),
        ("t.csv:9", "not_a_regular_file"),
        ("t.csv:10", "no_path"),
    ]


def test_lines_of_json_that_cannot_be_used_are_rejects(table: Write) -> None:
    text = (
        '{"path": "a/0.jpg", "label": 3}\n{"path": \n[1]\n\n{"path": "a/2.jpg", "label": [1]}\n{"path": 5, "label": 1}'
    )
    found = scan(table("t.jsonl", text), "jsonl")
    assert [item.class_name for item in items(found)] == ["3"]
    assert rejects(found) == [
        ("t.jsonl:2", "invalid_row"),
        ("t.jsonl:3", "invalid_row"),
        ("t.jsonl:5", "no_class"),
        ("t.jsonl:6", "missing_file"),
    ]


@pytest.mark.parametrize("later", ["", 'a/2.jpg,"a"\n', "x\n" * 300_000])
def test_a_stray_quote_is_an_error_at_its_line(table: Write, later: str) -> None:
    text = listing() + 'b/1.jpg,"b\n' + "a/0.jpg,a\n" * 5 + later
    with pytest.raises(DataprepError, match=r"line 22: a quote opens here"):
        scan(table("t.csv", text))


@pytest.mark.parametrize(("text", "message"), [("", "is empty"), ("path,path\n", "two columns named 'path'")])
def test_a_table_without_usable_columns_is_one_sentence(table: Write, text: str, message: str) -> None:
    with pytest.raises(DataprepError, match=message):
        scan(table("t.csv", text))


def test_numbers_are_labels(table: Write, tmp_path: Path) -> None:
    text = "path,label\n" + "".join(f"{'ab'[n % 2]}/{n}.jpg,{(0, 2, 10)[n % 3]}\n" for n in range(20))
    shard(table("t.csv", text), tmp_path / "out", val=0.0)
    with ShardReader(tmp_path / "out" / "train.mindrecord0") as reader:
        assert Counter(row["label"] for row in reader) == {0: 7, 2: 7, 10: 6}


def test_more_columns_become_typed_columns_of_the_records(table: Write, tmp_path: Path) -> None:
    text = "path,label,age,name\n" + "".join(f"{'ab'[n % 2]}/{n}.jpg,x,{n}.5,n{n}\n" for n in range(20))
    shard(table("t.csv", text), tmp_path / "out", field=("age:float32", "name:string"), val=0.0)
    with ShardReader(tmp_path / "out" / "train.mindrecord0") as reader:
        found = {row["key"]: (row["age"], row["name"]) for row in reader}
    assert found["b/7.jpg"] == (7.5, "n7")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int32", "7", 7), ("int32", "7.5", None), ("int32", "", None), ("int32", "2147483648", None),
        ("int64", "-2147483649", -2147483649), ("float32", "1e3", 1000.0), ("float64", "x", None), ("string", "", ""),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_their_column_are_rejects(table: Write, kind: str, value: str, expected: Any) -> None:
    found = scan(table("t.csv", f"path,label,f\na/0.jpg,a,{value}\n"), fields=(Field("f", kind),))
    if expected is None:
        assert rejects(found) == [("t.csv:2", "invalid_field")]
    else:
        [item] = items(found)
        assert item.annotation == {"fields": {"f": expected}}


def test_several_classes_are_joined_from_lists_and_rows(table: Write, tmp_path: Path) -> None:
    text = "path,tags\na/0.jpg,x|y\nb/1.jpg,x\nb/1.jpg,z\na/2.jpg,\n"
    found = scan(table("t.csv", text), needs="classes")
    assert {item.key: (item.annotation or {})["classes"] for item in items(found)} == {
        "a/0.jpg": ["x", "y"],
        "b/1.jpg": ["x", "z"],
        "a/2.jpg": [],
    }
    shard(table("t.csv", text), tmp_path / "out", schema="multilabel", val=0.0)
    dataset = load_dataset(tmp_path / "out")
    assert (dataset.classes, dataset.splits["train"].class_rows, dataset.written) == (("x", "y", "z"), (2, 1, 1), 3)


def test_captions_are_joined(table: Write, tmp_path: Path) -> None:
    text = "image,caption\na/0.jpg,first\na/0.jpg,second\n"
    shard(table("t.csv", text), tmp_path / "out", schema="caption", val=0.0)
    with ShardReader(tmp_path / "out" / "train.mindrecord0") as reader:
        [row] = list(reader)
    assert json.loads(row["captions"]) == ["first", "second"]


def test_metadata_of_split_folders_with_boxes(images: Path) -> None:
    (images / "a").rename(images / "train")
    (images / "b").rename(images / "validation")
    objects = {"bbox": [[1, 2, 3, 4]], "categories": ["cat"]}
    for folder, name in (("train", "0.jpg"), ("validation", "1.jpg")):
        line = json.dumps({"file_name": name, "objects": objects})
        (images / folder / "metadata.jsonl").write_text(line + "\n")
    found = items(scan(images, "metadata", needs="boxes"))
    assert [(item.key, item.split, item.annotation) for item in found] == [
        ("0.jpg", "train", {"boxes": [[1, 2, 4, 6]], "classes": ["cat"]}),
        ("1.jpg", "val", {"boxes": [[1, 2, 4, 6]], "classes": ["cat"]}),
    ]


def test_a_changed_label_is_noticed_when_the_job_resumes(table: Write, tmp_path: Path) -> None:
    path = table("t.csv", listing())
    shard(path, tmp_path / "out")
    (tmp_path / "out" / "dataset.json").unlink()
    path.write_text(listing().replace("a/0.jpg,a", "a/0.jpg,b"))
    with pytest.raises(DataprepError, match=r"'a/0\.jpg' has changed"):
        shard(path, tmp_path / "out")


def test_names_that_leave_the_folder_stay_in_quarantine(table: Write, images: Path, tmp_path: Path) -> None:
    (images.parent / "outside.jpg").write_bytes(b"no image")
    path = table("t.csv", listing() + "../outside.jpg,a\n")
    from dataprep.options import Budget

    shard(path, tmp_path / "out", quarantine=tmp_path / "bad", max_rejects=Budget(1, False))
    [copied] = [file for file in (tmp_path / "bad").rglob("*") if file.is_file()]
    assert copied.read_bytes() == b"no image"
