"""Checks of files, sizes and labels of a sealed split. This module imports neither MindSpore nor NumPy."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from schemas.counting import many
from schemas.dataset import Dataset, Shard, Split, file_problems, file_sha256, size_problems
from schemas.errors import ContractError
from schemas.layout import index_name
from schemas.shard_check import shard_problem
from schemas.storage.index_file import open_index

FULL_CHECK_BYTES = 2 << 30  # splits up to this size are hashed before each run, which takes seconds


def check_split(folder: Path, dataset: Dataset, split: str, full: bool) -> None:
    """Raise ContractError if the files or labels of a split do not match dataset.json."""
    check_files(folder, dataset, split, full)
    check_labels(folder, dataset, split)


def check_files(folder: Path, dataset: Dataset, split: str, full: bool) -> None:
    """Raise ContractError if a file of a split differs from the sealed file.

    Sizes, headers and indexes are always checked. All bytes are hashed if the split is small or `full` is True.
    MindSpore may crash on damaged bytes, so call this function before MindSpore opens the files.
    """
    shards = dataset.splits[split].shards
    problems = file_problems(folder, shards)
    if not problems and (full or sum(shard.bytes for shard in shards) <= FULL_CHECK_BYTES):
        problems = [problem for shard in shards if (problem := _byte_problem(folder, shard))]
    if not problems:
        problems = [problem for shard in shards if (problem := shard_problem(folder, shard, dataset.schema))]
    _reject(folder, problems)


def check_sizes(folder: Path, splits: Iterable[Split]) -> None:
    """Raise ContractError if a file is missing or its size differs from dataset.json. No file is opened."""
    _reject(folder, [problem for split in splits for shard in split.shards for problem in size_problems(folder, shard)])


def check_indexes(folder: Path, splits: Iterable[Split]) -> None:
    """Raise ContractError unless the indexes are those that were sealed. Reads no shard."""
    _reject(folder, [problem for split in splits for problem in file_problems(folder, split.shards)])


def _reject(folder: Path, problems: Sequence[str]) -> None:
    if problems:
        more = f" (and {len(problems) - 1} more; 'dataprep verify' lists all)" if len(problems) > 1 else ""
        remedy = "restore the dataset from a copy, or shard again with --overwrite"
        raise ContractError(f"{folder} is damaged: {problems[0]}{more}; {remedy}")


def _byte_problem(folder: Path, shard: Shard) -> str | None:
    if file_sha256(folder / shard.name) == shard.sha256:
        return None
    return f"{shard.name} is not the file that was sealed (its sha256 differs)"


def check_labels(folder: Path, dataset: Dataset, split: str) -> None:
    """Raise ContractError if a label is not a class number or if the rows per class differ from dataset.json.

    MindSpore silently trains on labels that are not class numbers (measured on 2.10). Labels are counted in the sealed
    indexes of the shards, because MindDataset takes 80 microseconds per row. The check is skipped if a custom schema
    has no labels in the index.
    """
    label = dataset.schema.column("label")
    if label not in {field.name for field in dataset.schema.index_fields}:
        return
    counts: Counter[int] = Counter()
    for shard in dataset.splits[split].shards:
        with open_index(folder / index_name(shard.name)) as db:
            counts.update(dict(db.execute(f'SELECT "{label}_0", count(*) FROM INDEXES GROUP BY 1')))
    outside = sorted(set(counts) - set(range(len(dataset.classes))))
    if outside:
        raise ContractError(
            f"{split} of {folder} has {many(sum(counts[value] for value in outside), 'label')} outside "
            f"0..{len(dataset.classes) - 1}, for example {outside[-1]}: dataset.json has no such class; shard again"
        )
    if [counts[number] for number in range(len(dataset.classes))] != list(dataset.splits[split].class_rows):
        raise ContractError(f"{split} of {folder}: the rows per class differ from dataset.json; shard again")
