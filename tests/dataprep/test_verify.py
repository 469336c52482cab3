from pathlib import Path

import pytest

from dataprep.verify import verify
from schemas.dataset import load_dataset
from schemas.errors import ContractError


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


def test_a_flipped_byte_of_the_index_is_found_by_the_quick_look_too(sealed: Path) -> None:
    flip(sealed / "val.mindrecord0.db", 9000)
    assert problems(sealed, full=False) == "val.mindrecord0.db is not the index that was sealed (its sha256 differs)"


def test_missing_and_cut_files_are_named(sealed: Path) -> None:
    (sealed / "train.mindrecord0").unlink()
    path = sealed / "train.mindrecord2"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size - 1)
    assert "train.mindrecord0 is missing" in problems(sealed)
    assert f"train.mindrecord2 has {size - 1} bytes, {size} were sealed" in problems(sealed)


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
    assert problems(sealed) == "train.mindrecord7 is not part of the sealed set; MindDataset may take it for one"


def test_a_changed_list_of_rejects_is_found(sealed: Path) -> None:
    (sealed / "rejects.jsonl").write_text('{"key": "a", "reason": "empty", "detail": ""}\n')
    assert problems(sealed) == "rejects.jsonl does not list what the manifest counts as rejected"


def test_an_edited_manifest_is_refused(sealed: Path) -> None:
    path = sealed / "dataset.json"
    path.write_text(path.read_text().replace('"cat"', '"cow"'))
    with pytest.raises(ContractError, match="was edited"):
        verify(sealed)


def test_a_set_that_was_moved_is_sound(sealed: Path, tmp_path: Path) -> None:
    sealed.rename(tmp_path / "elsewhere")
    assert problems(tmp_path / "elsewhere") == ""
    assert load_dataset(tmp_path / "elsewhere").written == 40
