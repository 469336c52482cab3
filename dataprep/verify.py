"""`dataprep verify`: is a sealed set still what was sealed?"""

import json
import tempfile
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from dataprep.images import image_size
from dataprep.mindrecord import ShardReader
from dataprep.mindrecord.index import read_index
from dataprep.prover import Prover, ShardFiles
from dataprep.receipt import ROWS, NotedRow, blob_digest, noted_rows
from dataprep.workdir import rows_file
from schemas.dataset import Dataset, Shard, file_problems, file_sha256, load_dataset
from schemas.errors import ContractError
from schemas.files import listing
from schemas.host import usable_cores
from schemas.layout import DUPLICATES, REJECTS, SPLITS, index_name

DECODE_DEADLINE_S = 60.0


@dataclass(frozen=True)
class Verdict:
    """What was checked, whether every byte was read for it, and every problem that was found, in words."""

    path: str
    digest: str
    shards: int
    rows: int
    full: bool
    problems: list[str]


def verify(folder: Path, full: bool = True, decode: bool = False) -> Verdict:
    """Check the files of a sealed set against its manifest; raises ContractError when there is no sound manifest.

    Always: every file is there with its size, the index digests and row counts hold, nothing else claims to be
    part of the set. With `full` every byte is read: digests, and the index against the data. With `decode` MindSpore
    decodes every image, in a child process that may die over it.
    """
    dataset = load_dataset(folder)
    problems = _foreign(folder, dataset) + _rejects_problem(folder, dataset) + _duplicates_problem(folder, dataset)
    for shard in dataset.shards:
        found = file_problems(folder, [shard])
        problems += found or _row_problems(folder, shard)
        if full and (folder / shard.name).is_file():
            problems += _deep_problems(folder, shard, index_too=not found)
    if decode and not problems:
        problems += _decode_problems(folder, dataset)
    if not problems:
        problems += _class_problems(folder, dataset)
    return Verdict(str(folder), dataset.digest, len(dataset.shards), dataset.written, full, problems)


def _foreign(folder: Path, dataset: Dataset) -> list[str]:
    known = {shard.name for shard in dataset.shards}
    names = sorted(path.name for split in SPLITS for path in listing(folder, f"{split}.mindrecord*"))
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
            rows, named = reader.rows, reader.own_name
            indexed = sum(1 for _ in islice(read_index(reader.path, reader.schema), shard.rows + 1))
    except ContractError as error:
        return [str(error)]
    problems = []
    if named != shard.name:
        problems.append(
            f"{shard.name} holds the data of {named}: files were swapped or renamed; 'dataprep repair' restores them"
        )
    if rows != shard.rows:
        problems.append(f"{shard.name} has {rows} rows, {shard.rows} were sealed")
    if indexed != shard.rows:
        more = "more" if indexed > shard.rows else f"{indexed} rows"
        problems.append(f"{index_name(shard.name)} lists {more}, {shard.rows} were sealed")
    return problems


def _deep_problems(folder: Path, shard: Shard, index_too: bool) -> list[str]:
    path = folder / shard.name
    problems = []
    if file_sha256(path) != shard.sha256:
        problems.append(f"{shard.name} is not what was sealed (its sha256 differs); {_hit_rows(folder, shard)}")
    if index_too:
        try:
            with ShardReader(path) as reader:
                problem = reader.index_problem()
        except ContractError as error:
            problem = str(error)
        problems += [problem] if problem else []
    return problems


def _hit_rows(folder: Path, shard: Shard) -> str:
    """Which rows of a damaged shard are hit, as far as it can be known."""
    noted = rows_file(folder, shard.name)
    if not noted.is_file():
        return "which rows are hit is not known, since .work did not come along"
    try:
        with ShardReader(folder / shard.name, cut_allowed=True) as reader:
            columns = [field.name for field in reader.schema.fields if field.type == "bytes"]
            rows = zip(reader.readable(), noted_rows(noted), strict=False)
            hit = [
                f"{number} ('{known.key}')"
                for (number, row), known in rows
                if row is None or blob_digest(row[columns[0]]) != known.image or known.key not in row.values()
            ]
    except ContractError as error:
        return f"all rows are hit: {error}"
    if not hit:
        return "no row is hit: the damage lies in the header or between pages"
    more = f" and {len(hit) - 5} more" if len(hit) > 5 else ""
    return f"hit: row {', '.join(hit[:5])}{more}"


def _decode_problems(folder: Path, dataset: Dataset) -> list[str]:
    problems = []
    keep = dataset.plan.get("options", {}).get("warnings") == "keep"
    with (
        tempfile.TemporaryDirectory() as scratch,
        Prover(dataset.schema, Path(scratch), "full", usable_cores(), DECODE_DEADLINE_S, keep) as prover,
    ):
        for shard in dataset.shards:
            noted = rows_file(folder, shard.name)
            if not noted.is_file():
                noted = _note_from_data(folder / shard.name, dataset, Path(scratch))
            for fault in prover.prove(ShardFiles(folder / shard.name, shard.rows, noted)).faults:
                problems.append(f"{shard.name}: row {fault.row} fails decoding: {fault.reason}: {fault.detail}")
    return problems


def _note_from_data(path: Path, dataset: Dataset, scratch: Path) -> Path:
    """The ROWS file of a shard that came without one: keys and labels from the data, sides from the images."""
    image, label, key = (dataset.schema.column(role) for role in ("image", "label", "key"))
    noted = scratch / ROWS
    with ShardReader(path) as reader, noted.open("w") as rows:
        for row in reader:
            width, height = image_size(row[image])
            rows.write(json.dumps(NotedRow(row[key], row[label], width, height, "", "", "")) + "\n")
    return noted


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
