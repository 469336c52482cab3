"""Checks of a sealed split before MindSpore opens it: files, sizes, labels. Imports neither MindSpore nor NumPy."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from schemas.counting import many
from schemas.dataset import Dataset, Shard, Split, file_problems, file_sha256, size_problems
from schemas.errors import ContractError
from schemas.layout import index_name
from schemas.shard_check import shard_problem
from schemas.storage.index_file import open_index

FULL_CHECK_BYTES = 2 << 30  # splits up to this size are hashed before each run: it takes seconds


def check_split(folder: Path, dataset: Dataset, split: str, full: bool) -> None:
    """Raise ContractError unless the files and the labels of a split agree with dataset.json."""
    check_files(folder, dataset, split, full)
    check_labels(folder, dataset, split)


def check_files(folder: Path, dataset: Dataset, split: str, full: bool) -> None:
    """Raise ContractError unless the files of a split are those that were sealed.

    Sizes, headers and indexes are always checked; all bytes are hashed if the split is small or `full` is set.
    MindSpore's readers and decoders may crash on damaged bytes, so call this before they open the files.
    """
    shards = dataset.splits[split].shards
    problems = file_problems(folder, shards)
    if not problems and (full or sum(shard.bytes for shard in shards) <= FULL_CHECK_BYTES):
        problems = [problem for shard in shards if (problem := _byte_problem(folder, shard))]
    if not problems:
        problems = [problem for shard in shards if (problem := shard_problem(folder, shard, dataset.schema))]
    _reject(folder, problems)


def check_sizes(folder: Path, splits: Iterable[Split]) -> None:
    """Raise ContractError unless all files exist and have the sealed sizes. Reads none of them."""
    _reject(folder, [problem for split in splits for shard in split.shards for problem in size_problems(folder, shard)])


def _reject(folder: Path, problems: Sequence[str]) -> None:
    if problems:
        more = f" (and {len(problems) - 1} more; 'dataprep verify' lists all)" if len(problems) > 1 else ""
        remedy = "restore it from a copy, or shard again with --overwrite"
        raise ContractError(f"{folder} is damaged: {problems[0]}{more}; {remedy}")


def _byte_problem(folder: Path, shard: Shard) -> str | None:
    if file_sha256(folder / shard.name) == shard.sha256:
        return None
    return f"{shard.name} is not the file that was sealed (its sha256 differs)"


def check_labels(folder: Path, dataset: Dataset, split: str) -> None:
    """Raise ContractError unless every label names a class and the rows per class match dataset.json.

    MindSpore silently trains on labels outside the classes (measured on 2.10). The labels are counted in the shards'
    indexes, which dataset.json seals: MindDataset needs 80 microseconds per row. Labels that a custom schema leaves
    out of the index are not checked.
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
            f"0..{len(dataset.classes) - 1}, for example {outside[-1]}: they name no class of dataset.json; shard again"
        )
    if [counts[number] for number in range(len(dataset.classes))] != list(dataset.splits[split].class_rows):
        raise ContractError(f"{split} of {folder}: the rows per class differ from dataset.json; shard again")
