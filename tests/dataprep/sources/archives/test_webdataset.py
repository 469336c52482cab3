"""WebDataset: samples of an image and its labels, as the library of that name reads them."""

import json
from pathlib import Path

import pytest

from dataprep.items import FoundClass
from dataprep.options import Budget, SourceOptions
from dataprep.sources.detect import detect_layout
from schemas.dataset import load_dataset
from schemas.record import Field
from tests.dataprep.examples import picture, shard
from tests.dataprep.sources.archives.packing import items, notices, reasons, rules, scan, tar_bytes

IMAGE = picture(1)
CAPTIONS = SourceOptions(needs="captions")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "samples.tar"


def samples(count: int, start: int = 0) -> list[tuple[str, bytes]]:
    members = []
    for number in range(start, start + count):
        members += [(f"{number:06d}.jpg", picture(number)), (f"{number:06d}.cls", b"%d\n" % (number % 11))]
    return members


def test_a_class_is_a_number_or_a_name(path: Path) -> None:
    path.write_bytes(tar_bytes([("0.jpg", IMAGE), ("0.cls", b"7\n"), ("1.PNG", IMAGE), ("1.cls", b"cat")]))
    assert detect_layout(path, SourceOptions()) == "webdataset"
    found = scan(path, "webdataset")
    assert {key: item.class_name for key, item in items(found).items()} == {"0.jpg": "7", "1.PNG": "cat"}
    assert {one.class_name for one in found if isinstance(one, FoundClass)} == {"7", "cat"}


def test_numbers_are_labels_in_order(path: Path, tmp_path: Path) -> None:
    path.write_bytes(tar_bytes(samples(33)))
    shard(path, tmp_path / "out")
    assert list(load_dataset(tmp_path / "out").classes) == [str(number) for number in range(11)]


def test_members_out_of_order_are_joined(path: Path) -> None:
    members = samples(5)
    path.write_bytes(tar_bytes([*members[::2], *members[:0:-2]]))
    assert {key: item.class_name for key, item in items(scan(path, "webdataset")).items()} == {
        f"{number:06d}.jpg": str(number) for number in range(5)
    }


def test_keys_that_contain_each_other_are_different_samples(path: Path) -> None:
    keys = ["a", "a-1", "a/b", "a/b c", "ab", "a0"]
    path.write_bytes(
        tar_bytes([(f"{key}.{ext}", IMAGE if ext == "jpg" else b"x") for ext in ("cls", "jpg") for key in keys])
    )
    assert sorted(items(scan(path, "webdataset"))) == sorted(f"{key}.jpg" for key in keys)


def test_incomplete_samples_are_rejects(path: Path) -> None:
    members = [*samples(2), ("lone.jpg", IMAGE), ("text.cls", b"1"), ("bad.jpg", IMAGE), ("bad.cls", b"\xff\xfe")]
    members += [("broken.jpg", IMAGE), ("broken.json", b"{"), ("two.jpg", IMAGE), ("two.png", IMAGE), ("two.cls", b"1")]
    members += [("empty.jpg", IMAGE), ("empty.cls", b" \n"), ("x.npy", b"1")]
    path.write_bytes(tar_bytes(members))
    found = scan(path, "webdataset")
    assert len(items(found)) == 2
    assert reasons(found) == {
        "lone.jpg": "no_label",
        "empty.jpg": "no_label",
        "text": "no_image",
        "bad.jpg": "invalid_label",
        "broken.jpg": "invalid_label",
        "two": "ambiguous_sample",
    }
    assert rules(found) == {"x.npy": "no image by name or content"}


def test_the_image_field_chooses_one_of_several_images(path: Path) -> None:
    members = [("1.left.jpg", IMAGE), ("1.right.jpg", picture(2)), ("1.cls", b"a")]
    path.write_bytes(tar_bytes(members))
    found = scan(path, "webdataset", SourceOptions(image_field="right.jpg"))
    assert list(items(found)) == ["1.right.jpg"]


def test_json_gives_classes_captions_and_fields(path: Path) -> None:
    value = {"label": 3, "classes": ["a", "b"], "caption": "a cat", "age": 1.5}
    path.write_bytes(tar_bytes([("1.jpg", IMAGE), ("1.json", json.dumps(value).encode())]))
    options = {
        need: SourceOptions(needs=need, fields=(Field("age", "float32"),)) for need in ("class", "classes", "captions")
    }
    found = {need: items(scan(path, "webdataset", one))["1.jpg"] for need, one in options.items()}
    assert found["class"].class_name == "3"
    assert found["class"].annotation == {"fields": {"age": 1.5}}
    assert found["classes"].annotation == {"classes": ["a", "b"], "fields": {"age": 1.5}}
    assert found["captions"].annotation == {"captions": ["a cat"], "fields": {"age": 1.5}}
    missing = SourceOptions(fields=(Field("height", "float32"),))
    assert reasons(scan(path, "webdataset", missing)) == {"1.jpg": "no_label"}


def test_text_is_a_caption(path: Path) -> None:
    path.write_bytes(tar_bytes([("1.jpg", IMAGE), ("1.txt", "ein Käfer\n".encode()), ("2.jpg", IMAGE)]))
    assert detect_layout(path, CAPTIONS) == "webdataset"
    found = scan(path, "webdataset", CAPTIONS)
    assert items(found)["1.jpg"].annotation == {"captions": ["ein Käfer"]}
    assert reasons(found) == {"2.jpg": "no_label"}


def test_captions_become_rows(path: Path, tmp_path: Path) -> None:
    members = []
    for number in range(4):
        members += [(f"{number}.jpg", picture(number)), (f"{number}.txt", b"number %d" % number)]
    path.write_bytes(tar_bytes(members))
    shard(path, tmp_path / "out", schema="caption")
    assert load_dataset(tmp_path / "out").written == 4


def test_the_same_sample_in_two_tars_is_a_reject_and_samples_are_not_joined_across_tars(tmp_path: Path) -> None:
    folder = tmp_path / "sets"
    folder.mkdir()
    (folder / "0.tar").write_bytes(tar_bytes([*samples(2), ("7.jpg", IMAGE)]))
    (folder / "1.tar").write_bytes(tar_bytes([*samples(3), ("7.cls", b"1")]))
    (folder / "0_stats.json").write_bytes(b"{}")
    assert detect_layout(folder, SourceOptions()) == "webdataset"
    found = scan(folder, "webdataset")
    assert sorted(items(found)) == ["000000.jpg", "000001.jpg", "000002.jpg"]
    assert reasons(found) == {
        "000000.jpg": "duplicate_key",
        "000001.jpg": "duplicate_key",
        "7.jpg": "no_label",
        "7": "no_image",
    }
    assert rules(found) == {"0_stats.json": "not an archive"}


def test_tars_named_after_splits_give_the_splits(tmp_path: Path) -> None:
    folder = tmp_path / "sets"
    folder.mkdir()
    for name in ("imagenet-train-000000", "imagenet-train-000001", "imagenet-val-000000"):
        (folder / f"{name}.tar").write_bytes(tar_bytes(samples(2, start=int(name[-1]) * 2)))
    assert {(item.key, item.split) for item in items(scan(folder, "webdataset")).values()} == {
        *((f"imagenet-train/00000{number}.jpg", "train") for number in range(4)),
        *((f"imagenet-val/00000{number}.jpg", "val") for number in range(2)),
    }


def test_class_folders_with_texts_beside_the_images_are_a_tar(path: Path) -> None:
    path.write_bytes(tar_bytes([("cat/1.jpg", IMAGE), ("cat/1.json", b"{}"), ("dog/2.jpg", IMAGE)]))
    assert detect_layout(path, SourceOptions()) == "tar"


def test_a_cut_sample_is_a_reject(path: Path) -> None:
    data = tar_bytes([*samples(1), ("z.cls", b"1"), ("z.jpg", IMAGE)])
    path.write_bytes(data[: data.rindex(b"z.jpg") + 512 + 50])
    found = scan(path, "webdataset")
    assert list(items(found)) == ["000000.jpg"]
    assert reasons(found) == {"z.jpg": "truncated"}
    assert notices(found)


def test_the_webdataset_library_reads_the_same(path: Path, tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset", reason="pip install webdataset")
    names = ["000", "a/b", "a/c.d"]
    members = []
    for number, name in enumerate(names):
        members += [(f"{name}.jpg", picture(number)), (f"{name}.cls", b"%d" % number)]
    path.write_bytes(tar_bytes(members))
    theirs = {
        (sample["__key__"], int(next(sample[name] for name in sample if name.endswith("cls"))),
         next(sample[name] for name in sample if name.endswith("jpg")))
        for sample in webdataset.WebDataset(str(path), shardshuffle=False)
    }  # fmt: skip
    found = scan(path, "webdataset")
    data = path.read_bytes()
    ours = set()
    for item in items(found).values():
        key = item.key[: item.key.index(".", item.key.rfind("/") + 1)]
        ours.add((key, int(item.class_name), data[item.place.offset : item.place.offset + item.place.length]))
    assert ours == theirs
    shard(path, tmp_path / "out", max_rejects=Budget(0, False))
    assert load_dataset(tmp_path / "out").written == 3
