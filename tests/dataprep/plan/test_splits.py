"""Splits by exact fractions, by hash, from a file and by group."""

import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dataprep.errors import DataprepError
from dataprep.items import FoundClass, Item, ScanEntry
from dataprep.options import ShardOptions
from dataprep.plan.planner import Origin, fill_plan
from dataprep.plan.store import Plan


def plan(keys: list[str], group: Any = None, **options: Any) -> Plan:
    """Plan images whose first folder is their class."""
    names = {key: key.split("/")[0] for key in keys}
    found: list[ScanEntry] = [FoundClass(name, None) for name in sorted(set(names.values()))]
    found += [Item(key, name, None, 100, 1, group=group(key) if group else None) for key, name in names.items()]
    db = sqlite3.connect(":memory:")
    fill_plan(db, found, Origin("/source", "classes"), replace(ShardOptions(), **options))
    return Plan(db)


def splits(made: Plan) -> dict[str, str]:
    return {item.key: shard.split for shard in made.shards for item in made.items(shard)}


CATS = [f"cat/{number}.jpg" for number in range(500)]
PATIENTS = [f"scan/patient{patient}_{number:03d}.jpg" for patient in range(40) for number in range(patient % 7 + 3)]


def test_hash_splits_do_not_move_images_when_others_are_added() -> None:
    few = splits(plan(CATS[:300], split_by="hash", val=0.2, test=0.1))
    many = splits(plan(CATS, split_by="hash", val=0.2, test=0.1))
    assert few.items() <= many.items()
    counts = Counter(many.values())
    assert 70 < counts["val"] < 130
    assert 30 < counts["test"] < 70


def test_exact_splits_have_the_fraction_of_each_class() -> None:
    keys = [*CATS[:100], *(f"dog/{number}.jpg" for number in range(50))]
    assert plan(keys, val=0.2, test=0.1).class_rows() == {"train": [70, 35], "val": [20, 10], "test": [10, 5]}


@pytest.mark.parametrize("split_by", ["class", "hash"])
def test_a_group_stays_in_one_split(split_by: str) -> None:
    made = splits(plan(PATIENTS, split_by=split_by, group_by=r"patient\d+", val=0.2, test=0.2))
    of_group: dict[str, set[str]] = {}
    for key, split in made.items():
        of_group.setdefault(key.split("_")[0], set()).add(split)
    assert all(len(seen) == 1 for seen in of_group.values())
    assert {"train", "val", "test"} == set(made.values())
    if split_by == "class":
        assert abs(Counter(made.values())["val"] - 0.2 * len(PATIENTS)) <= 9


def test_groups_of_the_source_are_used_before_the_expression() -> None:
    made = splits(plan(CATS, group=lambda key: key[4], group_by="column", val=0.3))
    assert len({(key[4], split) for key, split in made.items()}) == 10


def test_names_of_a_series_in_different_splits_are_a_warning() -> None:
    [warning] = plan(PATIENTS, val=0.2).warnings
    assert "'patient0'" in warning
    assert "--group-by" in warning
    assert plan(PATIENTS, val=0.2, group_by=r"patient\d+").warnings == []
    assert plan([f"cat/cat_{number}.jpg" for number in range(200)], val=0.2).warnings == []


@pytest.mark.parametrize(("expression", "message"), [("(", "no regular expression"), ("xyz", "matches no key")])
def test_an_expression_that_gives_no_group_is_an_error(expression: str, message: str) -> None:
    with pytest.raises(DataprepError, match=message):
        plan(CATS, group_by=expression)


def test_a_split_file_gives_the_splits_and_the_rest_is_ignored(tmp_path: Path) -> None:
    table = tmp_path / "splits.csv"
    table.write_text("key,split\ncat/1.jpg,val\ncat/2.jpg,train\ncat/3.jpg,test\ngone.jpg,train\n")
    made = plan(CATS[:10], split_file=table)
    assert splits(made) == {"cat/1.jpg": "val", "cat/2.jpg": "train", "cat/3.jpg": "test"}
    assert made.ignored == {"not in --split-file": 7}
    assert made.found == 10
    assert any("'gone.jpg'" in warning for warning in made.warnings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,split\n", "no column 'key'"),
        ("key,split\ncat/1.jpg,valid\n", "line 2: split 'valid'"),
        ("key,split\ncat/1.jpg\n", "line 2: split None"),
        ("key,split\ncat/1.jpg,val\ncat/1.jpg,train\n", "a key twice"),
        ('key,split\n"cat/1.jpg,val\n', "cannot be read"),
        ("", "no column 'key'"),
    ],
)
def test_a_wrong_split_file_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    table = tmp_path / "splits.csv"
    table.write_text(text)
    with pytest.raises(DataprepError, match=message):
        plan(CATS[:3], split_file=table)


def test_the_content_of_a_split_file_decides_and_its_folder_does_not(tmp_path: Path) -> None:
    decided = []
    for folder, text in (("a", "key,split\n"), ("b", "key,split\n"), ("c", "key,split\nx,val\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "splits.csv").write_text(text)
        decided.append(ShardOptions(split_file=tmp_path / folder / "splits.csv").deciding())
    assert decided[0] == decided[1] != decided[2]
