"""Each kind of damage to a sealed set: the trainer refuses it in a sentence, before it opens a file."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.dataset import load_dataset
from schemas.errors import ContractError
from tests.dataprep.examples import picture, shard
from trainer.feed.integrity import check_files


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for number in range(40):
        path = tmp_path / "raw" / "ab"[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    shard(tmp_path / "raw", tmp_path / "out", num_shards=2)
    shard(tmp_path / "raw", tmp_path / "other", num_shards=2, seed=1)
    return tmp_path / "out"


def flip(out: Path) -> None:
    path = out / "train.mindrecord0"
    data = bytearray(path.read_bytes())
    data[-40] ^= 1
    path.write_bytes(data)


def swap(out: Path) -> None:
    for suffix in ("", ".db"):
        first, second = out / f"train.mindrecord0{suffix}", out / f"train.mindrecord1{suffix}"
        first.rename(out / "aside")
        second.rename(first)
        (out / "aside").rename(second)


def edit(out: Path) -> None:
    manifest = json.loads((out / "dataset.json").read_text())
    manifest["classes"].reverse()
    (out / "dataset.json").write_text(json.dumps(manifest))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "flipped byte": flip,
    "cut shard": lambda out: os.truncate(out / "train.mindrecord1", 70_000),
    "missing shard": lambda out: (out / "train.mindrecord1").unlink(),
    "missing index": lambda out: (out / "train.mindrecord0.db").unlink(),
    "empty index": lambda out: (out / "train.mindrecord0.db").write_bytes(b""),
    "stale index": lambda out: shutil.copy(out / "train.mindrecord1.db", out / "train.mindrecord0.db"),
    "shard of another set": lambda out: shutil.copy(out.parent / "other" / "train.mindrecord0", out),
    "swapped shards": swap,
    "edited manifest": edit,
    "no manifest": lambda out: (out / "dataset.json").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_dataset_is_rejected_in_one_sentence(out: Path, damage: str) -> None:
    check_files(out, load_dataset(out), "train", full=False)
    DAMAGE[damage](out)
    with pytest.raises(ContractError, match=r"train\.mindrecord|dataset\.json|is not sealed"):
        check_files(out, load_dataset(out), "train", full=False)
