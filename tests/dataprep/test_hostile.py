"""Mutated files of every kind: the answer is a sentence or a sound reading, never a crash, a hang or a lie.

Fixed seed and a few hundred cases here; `DATAPREP_FUZZ=20000 pytest tests/dataprep/test_hostile.py` looks longer.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dataprep.mindrecord.reader import ShardReader
from dataprep.tools.inspect import inspect
from dataprep.tools.salvage import salvage
from dataprep.tools.verify import verify
from schemas.dataset import load_dataset
from schemas.errors import ContractError
from tests.dataprep.examples import MUTATIONS, mutate, run, shard


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.dataprep.examples import picture

    folder = tmp_path_factory.mktemp("sound")
    for number in range(30):
        path = folder / "raw" / "ab"[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    shard(folder / "raw", folder / "out", num_shards=2)
    return folder / "out"


def read_all(out: Path, name: str) -> None:
    with ShardReader(out / name) as reader:
        for _ in reader:
            pass
        reader.index_problem()


@pytest.mark.parametrize("name", ["train.mindrecord0", "train.mindrecord0.db", "dataset.json", "rejects.jsonl"])
def test_mutated_file_is_reported_in_one_sentence(sound: Path, tmp_path: Path, name: str) -> None:
    rng = random.Random(name)
    out = tmp_path / "out"
    shutil.copytree(sound, out)
    original = (out / name).read_bytes()
    for _ in range(MUTATIONS):
        mutated = mutate(original, rng)
        if mutated == original:
            continue
        (out / name).write_bytes(mutated)
        try:
            problems = verify(out).problems
        except ContractError as error:
            problems = [str(error)]
        # A list of rejects that lists the same reasons may say something else: it is not sealed by a digest.
        assert problems or name == "rejects.jsonl"


@pytest.mark.parametrize("name", ["train.mindrecord0", "train.mindrecord0.db"])
def test_reader_of_a_mutated_shard_returns_rows_or_raises_contract_error(
    sound: Path, tmp_path: Path, name: str
) -> None:
    rng = random.Random(f"reader {name}")
    out = tmp_path / "out"
    shutil.copytree(sound, out)
    original = (out / name).read_bytes()
    looks: list[Callable[[], object]] = [
        lambda: read_all(out, "train.mindrecord0"),
        lambda: inspect(out / "train.mindrecord0"),
    ]
    for number in range(MUTATIONS):
        (out / name).write_bytes(mutate(original, rng))
        for look in looks:
            try:
                look()
            except ContractError:
                continue
        if number % 20 == 0:
            salvage(out, tmp_path / f"saved{number}")
            assert verify(tmp_path / f"saved{number}").problems == []


def test_mutated_manifest_is_rejected_or_equivalent(sound: Path, tmp_path: Path) -> None:
    rng = random.Random("manifest")
    original = (sound / "dataset.json").read_bytes()
    expected = load_dataset(sound)
    for _ in range(MUTATIONS):
        (tmp_path / "dataset.json").write_bytes(mutate(original, rng))
        try:
            loaded = load_dataset(tmp_path)
        except ContractError:
            continue
        assert loaded == expected


@pytest.mark.parametrize("command", ["verify", "inspect", "repair"])
def test_commands_report_damage_with_an_exit_code(sound: Path, tmp_path: Path, command: str) -> None:
    out = tmp_path / "out"
    shutil.copytree(sound, out)
    (out / "dataset.json").write_bytes(b"{}")
    result = run(command, out)
    assert result.exit_code == 3
    assert result.stderr.startswith("Error: ")
