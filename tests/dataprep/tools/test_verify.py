import os
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dataprep.mindrecord.format import Geometry
from dataprep.mindrecord.reader import ShardReader
from dataprep.mindrecord.writer import ShardWriter
from dataprep.tools.inspect import inspect
from dataprep.tools.verify import verify
from schemas.dataset import load_dataset
from schemas.errors import ContractError
from schemas.record import load_schema
from tests.dataprep.examples import Files, encoded, shard


def problems(out: Path, full: bool = True) -> str:
    return "\n".join(verify(out, full).problems)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_sealed_set_has_no_problem(sealed: Path) -> None:
    verdict = verify(sealed)
    assert (verdict.problems, verdict.shards, verdict.rows) == ([], 4, 40)


def test_a_flipped_byte_anywhere_is_found(sealed: Path) -> None:
    path = sealed / "train.mindrecord1"
    before = path.read_bytes()
    for at in range(0, len(before), 997):
        flip(path, at)
        assert "train.mindrecord1" in problems(sealed)
        path.write_bytes(before)


def test_quick_check_finds_a_flipped_byte_of_the_index(sealed: Path) -> None:
    flip(sealed / "val.mindrecord0.db", 9000)
    assert problems(sealed, full=False) == "val.mindrecord0.db does not match its sealed sha256"


def test_missing_and_cut_files_are_named(sealed: Path) -> None:
    (sealed / "train.mindrecord0").unlink()
    path = sealed / "train.mindrecord2"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size - 1)
    assert "train.mindrecord0 is missing" in problems(sealed)
    assert f"train.mindrecord2 has {size - 1} bytes, expected {size}" in problems(sealed)


def test_shards_that_changed_names_are_found(sealed: Path) -> None:
    first, second = sealed / "train.mindrecord0", sealed / "train.mindrecord1"
    for suffix in ("", ".db"):
        swap = sealed / f"swap{suffix}"
        Path(f"{first}{suffix}").rename(swap)
        Path(f"{second}{suffix}").rename(f"{first}{suffix}")
        swap.rename(f"{second}{suffix}")
    assert "train.mindrecord0" in problems(sealed, full=False)
    assert "train.mindrecord1" in problems(sealed, full=False)


def test_a_left_over_shard_is_found(sealed: Path) -> None:
    (sealed / "train.mindrecord7").write_bytes(b"x")
    assert problems(sealed) == "train.mindrecord7 is not part of the dataset; MindDataset may read it as a shard"


def test_a_changed_list_of_rejects_is_found(sealed: Path) -> None:
    (sealed / "rejects.jsonl").write_text('{"key": "a", "reason": "empty", "detail": ""}\n')
    assert problems(sealed) == "rejects.jsonl differs from the counts in dataset.json"


def test_edited_manifest_is_rejected(sealed: Path) -> None:
    path = sealed / "dataset.json"
    path.write_text(path.read_text().replace('"cat"', '"cow"'))
    with pytest.raises(ContractError, match="was edited"):
        verify(sealed)


def test_moved_dataset_passes_verification(sealed: Path, tmp_path: Path) -> None:
    sealed.rename(tmp_path / "elsewhere")
    assert problems(tmp_path / "elsewhere") == ""
    assert load_dataset(tmp_path / "elsewhere").written == 40


def test_swapped_data_files_of_equal_size_are_found_by_the_quick_check_and_by_inspect(
    files: Files, tmp_path: Path
) -> None:
    stored = {
        f"cat/{number:02d}.png": encoded(Image.new("RGB", (8, 8), (number, 0, 0)), "PNG", compress_level=0)
        for number in range(8)
    }
    out = tmp_path / "out"
    shard(files(stored), out, num_shards=2, val=0.0)
    first, second = out / "train.mindrecord0", out / "train.mindrecord1"
    assert first.stat().st_size == second.stat().st_size, "only their headers tell them apart"
    first.rename(out / "aside")
    second.rename(first)
    (out / "aside").rename(second)
    assert "train.mindrecord0 contains the data of train.mindrecord1" in problems(out, full=False)
    with pytest.raises(ContractError, match=r"train\.mindrecord0 contains the data of train\.mindrecord1"):
        inspect(out, "train")


@pytest.mark.parametrize("name", ["dataset.json", "train.mindrecord0"])
def test_a_fifo_in_place_of_a_file_is_reported_at_once(sealed: Path, name: str) -> None:
    (sealed / name).unlink()
    os.mkfifo(sealed / name)
    try:
        said = problems(sealed)
    except ContractError as error:
        said = str(error)
    assert name in said
    with pytest.raises(ContractError, match="is not a regular file"):
        inspect(sealed, "train")


def test_reading_around_damage_takes_as_many_reads_as_there_are_rows(tmp_path: Path) -> None:
    rows = 400
    schema = load_schema("classification")
    with ShardWriter(tmp_path, ("a.mindrecord0",), 0, schema, Geometry(1 << 14, 1 << 18)) as writer:
        for number in range(rows):
            writer.write({"image": b"x" * 40, "label": 0, "key": f"{number}"})
        writer.finish()
    flip(tmp_path / "a.mindrecord0", (1 << 14) + 200 * 48 + 6)  # the length of row 200 is wrong, and so all behind it
    reads = 0

    def count(_frame: object, event: str, function: Any) -> None:
        nonlocal reads
        reads += event == "c_call" and function.__name__ == "read"

    with ShardReader(tmp_path / "a.mindrecord0", cut_allowed=True) as reader:
        sys.setprofile(count)
        try:
            found = [row for _, row in reader.stored()]
        finally:
            sys.setprofile(None)
    assert [row is not None for row in found] == [number < 200 for number in range(rows)]
    assert reads <= 4 * rows
