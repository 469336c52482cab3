import json
import os
import shutil
from pathlib import Path

import pytest

from dataprep.errors import DataprepError
from dataprep.mindrecord.reader import ShardReader
from dataprep.tools.repair import repair
from dataprep.tools.salvage import salvage
from dataprep.tools.verify import verify
from schemas.dataset import load_dataset
from tests.dataprep.examples import digests, keys


def cut(path: Path, share: float) -> None:
    os.truncate(path, int(path.stat().st_size * share))


@pytest.mark.parametrize("damage", ["missing", "empty", "stale"])
def test_lost_index_is_rebuilt_from_the_data(sealed: Path, damage: str) -> None:
    before = digests(sealed)
    index = sealed / "train.mindrecord1.db"
    if damage == "missing":
        index.unlink()
    elif damage == "empty":
        index.write_bytes(b"")
    else:
        shutil.copy(sealed / "train.mindrecord0.db", index)
    repaired = repair(sealed)
    assert repaired.done == ["train.mindrecord1.db was rebuilt from the data"]
    assert (repaired.problems, digests(sealed)) == ([], before)
    assert not (sealed / ".work" / "repair").exists()


def test_names_that_were_swapped_or_changed_are_restored(sealed: Path) -> None:
    before = digests(sealed)
    os.replace(sealed / "train.mindrecord0", sealed / "aside")
    os.replace(sealed / "train.mindrecord1", sealed / "train.mindrecord0")
    os.replace(sealed / "aside", sealed / "train.mindrecord1")
    os.replace(sealed / "val.mindrecord0", sealed / "my val data")
    repaired = repair(sealed)
    assert "my val data is val.mindrecord0 again" in repaired.done
    assert (repaired.problems, digests(sealed)) == ([], before)


def test_damage_that_cannot_be_repaired_is_reported(sealed: Path) -> None:
    cut(sealed / "train.mindrecord2", 0.5)
    assert "train.mindrecord2 has" in repair(sealed).problems[0]


def test_intact_rows_of_a_cut_shard_form_a_new_dataset(sealed: Path, tmp_path: Path) -> None:
    before = keys(sealed)
    path = sealed / "train.mindrecord2"
    with ShardReader(path) as reader:
        end = reader._start(reader._pages[-1])
        assert len(reader._pages) >= 2
        rows = [reader.row(number)["key"] for number in range(reader.rows)]
    os.truncate(path, end - 200 if len(reader._pages) > 2 else reader.geometry.header_size + 300)
    saved = salvage(sealed, tmp_path / "saved")
    assert saved.lost["train"] > 0
    assert verify(tmp_path / "saved").problems == []
    left = keys(tmp_path / "saved")
    lines = (tmp_path / "saved" / "rejects.jsonl").read_text().splitlines()
    lost = [entry["key"] for entry in map(json.loads, lines) if entry["reason"] == "lost"]
    assert sorted(left + lost) == sorted(before)
    assert set(lost) <= set(rows)


@pytest.mark.parametrize("with_notes", [True, False])
def test_flipped_byte_in_an_image_loses_only_that_row(sealed: Path, tmp_path: Path, with_notes: bool) -> None:
    path = sealed / "train.mindrecord0"
    data = bytearray(path.read_bytes())
    at = data.index(b"IDAT") + 8  # in the pixels of the first PNG
    data[at] ^= 0xFF
    path.write_bytes(data)
    if not with_notes:
        shutil.rmtree(sealed / ".work")
    saved = salvage(sealed, tmp_path / "saved")
    assert (saved.lost, saved.rows["train"]) == ({"train": 1, "val": 0}, 35)
    assert verify(tmp_path / "saved").problems == []
    assert load_dataset(tmp_path / "saved").plan["salvaged_from"] == load_dataset(sealed).digest


def test_verify_names_the_damaged_rows(sealed: Path) -> None:
    path = sealed / "train.mindrecord0"
    data = bytearray(path.read_bytes())
    data[data.index(b"IDAT") + 8] ^= 0xFF
    path.write_bytes(data)
    (problem,) = verify(sealed).problems
    assert problem.startswith("train.mindrecord0 is damaged (its sha256 differs); damaged: row ")
    assert ".png')" in problem


def test_flipped_byte_between_pages_damages_no_row(sealed: Path) -> None:
    path = sealed / "train.mindrecord0"
    data = bytearray(path.read_bytes())
    with ShardReader(path) as reader:
        data[reader.geometry.header_size - 1] ^= 1
    path.write_bytes(data)
    assert "no row is damaged" in verify(sealed).problems[0]


def test_salvage_does_not_write_into_a_folder_with_files(sealed: Path) -> None:
    with pytest.raises(DataprepError, match="is not an empty folder"):
        salvage(sealed, sealed)


@pytest.mark.slow
@pytest.mark.parametrize("with_notes", [True, False])
def test_verify_decodes_every_row_with_mindspore_on_request(sealed: Path, with_notes: bool) -> None:
    if not with_notes:
        shutil.rmtree(sealed / ".work")
    assert verify(sealed, decode=True).problems == []


def test_salvage_finds_the_data_of_shards_whose_names_were_swapped(sealed: Path, tmp_path: Path) -> None:
    before = sorted(keys(sealed))
    first, second = sealed / "train.mindrecord0", sealed / "train.mindrecord1"
    first.rename(sealed / "aside")
    second.rename(first)
    (sealed / "aside").rename(second)
    salvaged = salvage(sealed, tmp_path / "new")
    assert sum(salvaged.lost.values()) == 0
    assert sorted(keys(tmp_path / "new")) == before
