"""`dataprep verify`: is a sealed set still what was sealed?"""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from dataprep.mindrecord import ShardReader
from dataprep.mindrecord.index import read_index
from schemas.dataset import Dataset, Shard, file_problems, file_sha256, load_dataset
from schemas.errors import ContractError
from schemas.layout import DUPLICATES, REJECTS, SPLITS, index_name


@dataclass(frozen=True)
class Verdict:
    """What was checked and every problem that was found, in words."""

    path: str
    digest: str
    shards: int
    rows: int
    problems: list[str]


def verify(folder: Path, full: bool = True) -> Verdict:
    """Check the files of a sealed set against its manifest; raises ContractError when there is no sound manifest.

    Always: every file is there with its size, the index digests and row counts hold, nothing else claims to be
    part of the set. With `full` every byte is read: digests, and the index against the data.
    """
    dataset = load_dataset(folder)
    problems = _foreign(folder, dataset) + _rejects_problem(folder, dataset) + _duplicates_problem(folder, dataset)
    shards = [shard for split in dataset.splits.values() for shard in split.shards]
    for shard in shards:
        found = file_problems(folder, [shard])
        problems += found or _row_problems(folder, shard)
        if full and (folder / shard.name).is_file():
            problems += _deep_problems(folder, shard, index_too=not found)
    if not problems:
        problems += _class_problems(folder, dataset)
    return Verdict(str(folder), dataset.digest, len(shards), dataset.written, problems)


def _foreign(folder: Path, dataset: Dataset) -> list[str]:
    known = {shard.name for split in dataset.splits.values() for shard in split.shards}
    names = sorted(path.name for split in SPLITS for path in folder.glob(f"{split}.mindrecord*"))
    strange = [name for name in names if name not in known and name.removesuffix(".db") not in known]
    return [f"{name} is not part of the sealed set; MindDataset may take it for one" for name in strange]


def _duplicates_problem(folder: Path, dataset: Dataset) -> list[str]:
    path = folder / DUPLICATES
    if not path.is_file():
        return [f"{DUPLICATES} is missing"]
    lines = path.read_bytes().count(b"\n")
    expected = dataset.duplicates.get("groups", 0)
    return [] if lines == expected else [f"{DUPLICATES} has {lines} lines, {expected} were sealed"]


def _rejects_problem(folder: Path, dataset: Dataset) -> list[str]:
    path = folder / REJECTS
    if not path.is_file():
        return [f"{REJECTS} is missing"]
    try:
        reasons = Counter(json.loads(line)["reason"] for line in path.read_bytes().splitlines())
    except (ValueError, KeyError, TypeError):
        return [f"{REJECTS} has a line that is no reject"]
    return (
        []
        if reasons == Counter(dataset.rejected)
        else [f"{REJECTS} does not list what the manifest counts as rejected"]
    )


def _row_problems(folder: Path, shard: Shard) -> list[str]:
    """Row counts and names: what the header and the index say of themselves."""
    try:
        with ShardReader(folder / shard.name) as reader:
            rows = reader.rows
            indexed = sum(1 for _ in read_index(reader.path, reader.schema))
    except ContractError as error:
        return [str(error)]
    problems = []
    if rows != shard.rows:
        problems.append(f"{shard.name} has {rows} rows, {shard.rows} were sealed")
    if indexed != shard.rows:
        problems.append(f"{index_name(shard.name)} lists {indexed} rows, {shard.rows} were sealed")
    return problems


def _deep_problems(folder: Path, shard: Shard, index_too: bool) -> list[str]:
    path = folder / shard.name
    problems = []
    if file_sha256(path) != shard.sha256:
        problems.append(f"{shard.name} is not what was sealed (its sha256 differs); make it again from the images")
    if index_too:
        try:
            with ShardReader(path) as reader:
                problem = reader.index_problem()
        except ContractError as error:
            problem = str(error)
        problems += [problem] if problem else []
    return problems


def _class_problems(folder: Path, dataset: Dataset) -> list[str]:
    indexed = [field.name for field in dataset.schema.index_fields]
    label = dataset.schema.column("label")
    if label not in indexed:
        return []
    column = indexed.index(label) - len(indexed)  # the indexed values end an index row
    problems = []
    for name, split in dataset.splits.items():
        counts: Counter[int] = Counter()
        for shard in split.shards:
            counts.update(row[column] for row in read_index(folder / shard.name, dataset.schema))
        if [counts.pop(number, 0) for number in range(len(dataset.classes))] != list(split.class_rows) or counts:
            problems.append(f"the labels of {name} are not those that the manifest counts")
    return problems
