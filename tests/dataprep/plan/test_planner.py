import random
import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dataprep.errors import DataprepError
from dataprep.items import FoundClass, Ignored, Item, Reject, ScanEntry
from dataprep.options import ShardOptions, SourceOptions
from dataprep.plan.planner import Origin, fill_plan
from dataprep.plan.store import Plan
from dataprep.sources.class_folders import scan
from tests.dataprep.examples import Files, picture


def items(counts: dict[str, int], split: str | None = None) -> list[ScanEntry]:
    found: list[ScanEntry] = [FoundClass(name, split) for name in counts]
    for name, count in counts.items():
        prefix = f"{split}/" if split else ""
        found += [Item(f"{prefix}{name}/{n}.jpg", name, split, 100 + n, n) for n in range(count)]
    return found


def plan(found: Iterable[ScanEntry], layout: str = "classes", **options: Any) -> Plan:
    db = sqlite3.connect(":memory:")
    fill_plan(db, found, Origin("/source", layout), replace(ShardOptions(), **options))
    return Plan(db)


def contents(made: Plan) -> dict[str, list[tuple[str, int]]]:
    return {shard.name: [(item.key, item.label) for item in made.items(shard)] for shard in made.shards}


def test_the_plan_does_not_depend_on_the_order_of_the_listing() -> None:
    found = items({"cat": 50, "dog": 30})
    shuffled = random.Random(1).sample(found, len(found))
    assert contents(plan(found, num_shards=4)) == contents(plan(shuffled, num_shards=4))


def test_another_seed_gives_another_split_and_order() -> None:
    found = items({"cat": 50})
    assert contents(plan(found)) != contents(plan(found, seed=1))


def test_each_class_is_split_by_the_fractions_of_val_and_test() -> None:
    made = plan(items({"cat": 50, "dog": 30, "one": 1}), val=0.1, test=0.2)
    assert made.class_rows() == {"train": [35, 21, 1], "val": [5, 3, 0], "test": [10, 6, 0]}
    assert made.warnings == [
        "val has no image of 1 class: 'one'",
        "test has no image of 1 class: 'one'",
    ]


def test_every_item_is_in_exactly_one_shard() -> None:
    made = plan(items({"cat": 50, "dog": 30}), num_shards=7)
    planned = [key for rows in contents(made).values() for key, _ in rows]
    assert len(planned) == len(set(planned)) == made.item_count == 80
    assert sum(shard.bytes for shard in made.shards) == sum(100 + n for n in [*range(50), *range(30)])


def test_shards_mix_the_classes() -> None:
    made = plan(items({"cat": 50, "dog": 50}), num_shards=4, val=0.0)
    assert all(10 < sum(label for _, label in rows) < 40 or len(rows) < 30 for rows in contents(made).values())
    assert all({label for _, label in rows} == {0, 1} for rows in contents(made).values())


def test_more_shards_than_images_are_rejected() -> None:
    with pytest.raises(DataprepError, match="--num-shards 8 is too large for 3 images"):
        plan(items({"cat": 3}), num_shards=8, val=0.0)


def test_a_shard_size_below_that_of_an_image_gives_a_shard_per_image() -> None:
    made = plan(items({"cat": 3}), shard_size=1, val=0.0)
    assert [shard.items for shard in made.shards] == [1, 1, 1]


def test_images_of_very_different_sizes_may_leave_shards_empty() -> None:
    sizes = [1 << 20, 1, 1, 1]
    found = [FoundClass("a", None), *(Item(f"a/{n}.jpg", "a", None, size, 0) for n, size in enumerate(sizes))]
    made = plan(found, num_shards=4, val=0.0)
    assert sum(shard.items for shard in made.shards) == 4
    assert [shard.name for shard in made.shards] == [f"train.mindrecord{n}" for n in range(4)]
    empty = [shard.items for shard in made.shards].count(0)
    assert made.warnings == [f"{empty} shards will be empty: --num-shards 4 is too large"]


def test_files_without_bytes_are_planned_too() -> None:
    found: list[ScanEntry] = [FoundClass("a", None), Item("a/1.jpg", "a", None, 0, 0)]
    assert [len(rows) for rows in contents(plan(found)).values()] == [1]


@pytest.mark.slow
def test_classes_sort_as_ImageFolderDataset_sorts_them(files: Files) -> None:
    import mindspore.dataset as ds

    names = ["b", "A", "a", "10", "9", "é", "_x", "a b", "Z"]
    root = files({f"{name}/1.jpg": picture(0) for name in names})
    made = plan(scan(root, SourceOptions()))
    theirs = ds.ImageFolderDataset(str(root)).get_class_indexing()
    assert made.classes == tuple(sorted(theirs, key=lambda name: theirs[name]))


def test_numbers_that_sort_as_text_give_a_warning() -> None:
    assert "sort as text ('1', '10', ...)" in plan(items({"1": 1, "2": 1, "10": 1}), val=0.0).warnings[0]
    assert plan(items({"01": 1, "02": 1, "10": 1}), val=0.0).warnings == []


def test_classes_that_look_equal_give_a_warning() -> None:
    made = plan(items({"Cat": 1, "cat": 1, "caf\u00e9": 1, "cafe\u0301": 1}), val=0.0)
    assert [warning.split("differ")[0] for warning in made.warnings if "differ" in warning] == [
        "the classes 'cafe\u0301' and 'caf\u00e9' ",
        "the classes 'Cat' and 'cat' ",
    ]
    assert len(made.classes) == 4


def test_a_list_of_classes_gives_the_order() -> None:
    made = plan(items({"1": 1, "10": 1, "2": 1}), classes=("1", "2", "10"), val=0.0)
    assert (made.classes, made.warnings) == (("1", "2", "10"), [])


def test_folder_that_the_class_list_does_not_name_is_rejected() -> None:
    with pytest.raises(DataprepError, match="class 'dog' is not in the list of --classes"):
        plan(items({"cat": 1, "dog": 1}), classes=("cat",))


def test_val_uses_the_classes_of_train() -> None:
    found = items({"a": 2, "c": 2}, "train") + items({"c": 1}, "val")
    made = plan(found, "splits")
    assert made.classes == ("a", "c")
    assert made.class_rows() == {"train": [2, 2], "val": [0, 1]}
    assert made.warnings == ["val has no image of 1 class: 'a'"]


def test_class_without_train_folder_is_rejected() -> None:
    with pytest.raises(DataprepError, match="class 'val/new' is not in train"):
        plan(items({"a": 1}, "train") + items({"new": 1}, "val"), "splits")


def test_found_counts_items_rejects_and_ignored() -> None:
    found = [*items({"a": 3}), Reject("a/x", "dangling_link", ""), Ignored("a/.x", "hidden"), Ignored("a/.y", "hidden")]
    made = plan(found)
    assert (made.found, made.item_count, made.ignored) == (6, 3, {"hidden": 2})
    assert made.rejects() == [Reject("a/x", "dangling_link", "")]


def test_source_without_images_is_an_error_that_names_the_expected_layout() -> None:
    with pytest.raises(DataprepError, match=r"no image was found in /source; expected images in the folders"):
        plan([FoundClass("a", None)])


def test_a_saved_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "plan.sqlite")
    fill_plan(db, items({"a": 9}), Origin("/source", "classes"), ShardOptions())
    db.close()
    read = Plan.open(tmp_path / "plan.sqlite")
    assert contents(read) == contents(plan(items({"a": 9})))
    assert read.options == ShardOptions().deciding()
    read.close()


def test_options_without_effect_give_a_warning() -> None:
    split = items({"a": 3}, "train") + items({"a": 2}, "val")
    assert plan(split, "splits").warnings == []
    assert plan(split, "splits", val=0.2).warnings == ["SOURCE gives the splits, so --val and --test have no effect"]
